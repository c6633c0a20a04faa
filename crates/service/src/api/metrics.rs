//! What the service counts of itself, as Prometheus text.
//!
//! Labels are bounded: routes as they are declared, classes of status, states of jobs. No job's id is a label.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tidegate_http::prometheus::{family, head, line};

/// Upper bounds of the times that answers are counted by, in ms.
const BOUNDS_MS: [f64; 11] = [0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 500.0, 2_500.0, 30_000.0];

/// The requests answered so far.
#[derive(Default)]
pub(crate) struct Metrics {
    routes: Mutex<BTreeMap<(String, u16), Counted>>,
}

/// The answers of one route with one class of status.
#[derive(Clone, Copy, Default)]
struct Counted {
    within: [u64; BOUNDS_MS.len()],
    count: u64,
    seconds: f64,
}

impl Metrics {
    fn add(&self, route: &str, status: u16, took: Duration) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let class = status / 100;
        let counted = match routes.get_mut(&(route.to_owned(), class)) {
            Some(counted) => counted,
            None => routes.entry((route.to_owned(), class)).or_default(),
        };
        let ms = took.as_secs_f64() * 1000.0;
        for (within, bound) in counted.within.iter_mut().zip(BOUNDS_MS) {
            *within += u64::from(ms <= bound);
        }
        counted.count += 1;
        counted.seconds += took.as_secs_f64();
    }

    /// The text of the requests.
    pub fn write(&self, text: &mut String) {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let requests = routes.iter().map(|((route, class), counted)| {
            (vec![("route", route.clone()), ("code", format!("{class}xx"))], counted.count as f64)
        });
        family(text, "tidegate_http_requests_total", "counter", "Requests answered.", requests);
        let name = "tidegate_http_request_duration_seconds";
        head(text, name, "histogram", "From a request's head to its answer's.");
        for ((route, class), counted) in &routes {
            let labels = vec![("route", route.clone()), ("code", format!("{class}xx"))];
            for (within, bound) in counted.within.iter().zip(BOUNDS_MS) {
                let mut labels = labels.clone();
                labels.push(("le", (bound / 1000.0).to_string()));
                line(text, &format!("{name}_bucket"), &labels, *within as f64);
            }
            let mut all = labels.clone();
            all.push(("le", "+Inf".to_owned()));
            line(text, &format!("{name}_bucket"), &all, counted.count as f64);
            line(text, &format!("{name}_sum"), &labels, counted.seconds);
            line(text, &format!("{name}_count"), &labels, counted.count as f64);
        }
    }
}

/// Counts a request and its answer.
pub(crate) async fn count(State(metrics): State<Arc<Metrics>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    metrics.add(route, response.status().as_u16(), began.elapsed());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_up_and_labels_are_escaped() {
        let metrics = Metrics::default();
        metrics.add("/a\"b", 200, Duration::from_millis(2));
        metrics.add("/a\"b", 204, Duration::from_millis(40));
        let mut text = String::new();
        metrics.write(&mut text);
        for wanted in [
            "tidegate_http_requests_total{route=\"/a\\\"b\",code=\"2xx\"} 2\n",
            "tidegate_http_request_duration_seconds_bucket{route=\"/a\\\"b\",code=\"2xx\",le=\"0.001\"} 0\n",
            "tidegate_http_request_duration_seconds_bucket{route=\"/a\\\"b\",code=\"2xx\",le=\"0.0025\"} 1\n",
            "tidegate_http_request_duration_seconds_bucket{route=\"/a\\\"b\",code=\"2xx\",le=\"+Inf\"} 2\n",
            "tidegate_http_request_duration_seconds_count{route=\"/a\\\"b\",code=\"2xx\"} 2\n",
        ] {
            assert!(text.contains(wanted), "{wanted} in\n{text}");
        }
    }
}
