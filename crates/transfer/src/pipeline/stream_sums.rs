//! `TCP_INFO` of many streams, summed up.

use crate::counters::StreamCounters;
use crate::pipeline::evenness::StreamPace;
use crate::sys::tcp::TcpInfo;

/// Adds what only grows while a connection lasts.
pub(super) fn add(sum: &mut TcpInfo, info: &TcpInfo) {
    sum.retransmits += info.retransmits;
    sum.segments_sent += info.segments_sent;
    sum.busy += info.busy;
    sum.receiver_limited += info.receiver_limited;
    if let Some(acknowledged) = info.acknowledged {
        sum.acknowledged = Some(sum.acknowledged.unwrap_or_default() + acknowledged);
    }
    // What older kernels do not tell comes later, all at once behind a gap.
    if let Some(delivered) = info.delivered.or(info.acknowledged) {
        sum.delivered = Some(sum.delivered.unwrap_or_default() + delivered);
    }
}

/// The streams under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamSums {
    counters: StreamCounters,
    moved: f64,
    moved_squared: f64,
}

impl StreamSums {
    /// One more, which has moved so many bytes since the last count, and has this pace; whether its congestion control goes by a
    /// model of the path.
    pub(super) fn add(&mut self, info: &TcpInfo, moved: u64, pace: Option<StreamPace>, model_based: bool) {
        let counters = &mut self.counters;
        counters.model_based += u16::from(model_based);
        let least_us = info.least_rtt.as_micros() as u64;
        counters.count += 1;
        counters.app_limited += u16::from(info.app_limited);
        counters.queued += u16::from(pace.is_some_and(|pace| pace.is_queued()));
        counters.held += u16::from(pace.is_some_and(|pace| pace.is_held()));
        counters.min_rtt_us = match counters.min_rtt_us {
            0 => least_us,
            us if least_us > 0 => us.min(least_us),
            us => us,
        };
        counters.delivery += info.delivery;
        counters.window += info.window;
        self.moved += moved as f64;
        self.moved_squared += (moved as f64).powi(2);
    }

    /// What is told of them; `all` are the sums over all streams there were.
    pub(super) fn counters(self, all: &TcpInfo) -> StreamCounters {
        let count = f64::from(self.counters.count.max(1));
        let (mean, squared) = (self.moved / count, self.moved_squared / count);
        let deviation = (squared - mean * mean).max(0.0).sqrt();
        let spread = if mean > 0.0 { deviation / mean } else { 0.0 };
        StreamCounters {
            busy_us: all.busy.as_micros() as u64,
            receiver_limited_us: all.receiver_limited.as_micros() as u64,
            spread_ppm: (spread * 1e6) as u32,
            ..self.counters
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn streams_are_summed_up_and_told_how_unequal_they_are() {
        let info = |rtt_ms, delivery, app_limited| TcpInfo {
            least_rtt: Duration::from_millis(rtt_ms),
            delivery,
            window: 10_000,
            app_limited,
            busy: Duration::from_secs(1),
            receiver_limited: Duration::from_millis(200),
            acknowledged: Some(5),
            ..TcpInfo::default()
        };
        let (mut sums, mut all) = (StreamSums::default(), TcpInfo::default());
        for (info, moved) in
            [(info(0, 100, true), 1000), (info(30, 200, false), 3000), (info(20, 0, false), 2000)]
        {
            sums.add(&info, moved, None, info.app_limited);
            add(&mut all, &info);
        }
        assert_eq!(all.acknowledged, Some(15));
        let told = sums.counters(&all);
        assert_eq!((told.count, told.app_limited, told.min_rtt_us), (3, 1, 20_000));
        assert_eq!((told.delivery, told.window, told.model_based), (300, 30_000, 1));
        assert_eq!((told.busy_us, told.receiver_limited_us), (3_000_000, 600_000));
        assert_eq!(told.spread_ppm, 408_248, "the root of two thirds by two");
        assert_eq!(StreamSums::default().counters(&all).spread_ppm, 0);
    }
}
