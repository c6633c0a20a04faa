//! The kinds of curves that are predicted: throughput in Mbit/s of n streams.

use tidegate_control::Rng;

/// A curve.
pub type Curve = Box<dyn Fn(f64) -> f64>;

/// Curves of one kind, drawn at random.
pub struct Family {
    /// What kind.
    pub name: &'static str,
    /// One of them.
    pub draw: fn(&mut Rng) -> Curve,
}

/// What a lone stream moves.
fn lone(rng: &mut Rng) -> f64 {
    rng.log_uniform(1.0, 1000.0)
}

/// Streams at the peak or the knee.
fn few_or_many(rng: &mut Rng) -> f64 {
    rng.log_uniform(3.0, 48.0)
}

/// p′ = a·nᶜ + b, both parts alike at the bend.
fn dynamic(rng: &mut Rng, c: f64) -> Curve {
    let (t, bend) = (lone(rng), few_or_many(rng));
    Box::new(move |n| n * t / (1.0 + (n / bend).powf(c)).sqrt())
}

/// All families.
pub fn all() -> Vec<Family> {
    vec![
        Family {
            name: "full second order with a peak",
            draw: |rng| {
                let (t, peak, s) = (lone(rng), few_or_many(rng), rng.log_uniform(0.3, 3.0));
                Box::new(move |n| {
                    let x = n / peak;
                    n * t / (1.0 - 2.0 * x + (1.0 + s) * x * x).sqrt()
                })
            },
        },
        Family {
            name: "full second order, saturating",
            draw: |rng| {
                let (t, bend, b) = (lone(rng), few_or_many(rng), rng.uniform(0.0, 2.0));
                Box::new(move |n| {
                    let x = n / bend;
                    n * t / (1.0 + b * x + x * x).sqrt()
                })
            },
        },
        Family { name: "dynamic order, c = 1.5", draw: |rng| dynamic(rng, 1.5) },
        Family { name: "dynamic order, c = 2 (Dinda)", draw: |rng| dynamic(rng, 2.0) },
        Family { name: "dynamic order, c = 2.6", draw: |rng| dynamic(rng, 2.6) },
        Family { name: "dynamic order, c = 4", draw: |rng| dynamic(rng, 4.0) },
        Family {
            name: "share of a link, n/(n + m)",
            draw: |rng| {
                let (t, others) = (lone(rng), rng.log_uniform(1.0, 48.0));
                Box::new(move |n| n * t / (n + others))
            },
        },
        Family {
            name: "limit a stream on a link, min(n·t, B)",
            draw: |rng| {
                let (t, knee) = (lone(rng), few_or_many(rng));
                Box::new(move |n| n.min(knee) * t)
            },
        },
        Family {
            name: "the same, falling beyond the knee",
            draw: |rng| {
                let (t, knee, fall) = (lone(rng), few_or_many(rng), rng.uniform(0.1, 1.0));
                let slope = (1.0 + fall) / knee;
                Box::new(move |n| n * t / (1.0 + slope * (n - knee).max(0.0)))
            },
        },
        Family {
            name: "not congested, n·t",
            draw: |rng| {
                let t = lone(rng);
                Box::new(move |n| n * t)
            },
        },
    ]
}
