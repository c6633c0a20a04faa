//! Which endpoint of a pool a lease goes through: the one that is least burdened for its weight and for what leases through it
//! bring.

use sqlx::Row;
use tidegate_database::Transaction;

use super::{Fleet, changed, count, whole};

/// An endpoint of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolEndpoint {
    /// What it is called.
    pub name: String,
    /// Its part of the leases beside the others'.
    pub weight: u32,
}

/// An endpoint as a claim finds it.
#[derive(Clone, Debug)]
struct Burden {
    number: u16,
    weight: u64,
    /// What a lease through it brought lately, in bytes a second; 0 while nobody knows.
    rate: u64,
    leases: u64,
}

/// An endpoint is taken to bear no less than this part of what the best bears: it is asked again now and then, and may do
/// better.
const LEAST_PART: f64 = 1.0 / 16.0;

/// The number of the one that the next lease goes through.
fn choose(burdens: &[Burden]) -> Option<u16> {
    let best = burdens.iter().map(|burden| burden.rate).max().unwrap_or(0).max(1) as f64;
    let load = |burden: &Burden| {
        // Of whom nothing is known, the best is expected.
        let part = if burden.rate == 0 { 1.0 } else { (burden.rate as f64 / best).max(LEAST_PART) };
        (burden.leases + 1) as f64 / (burden.weight.max(1) as f64 * part)
    };
    burdens.iter().min_by(|a, b| load(a).total_cmp(&load(b))).map(|burden| burden.number)
}

impl Fleet {
    /// The endpoint for a mover's next lease in `run`, none of those `without` if there is another; nothing where there is
    /// no pool.
    pub(super) async fn endpoint(
        &self,
        tx: &mut Transaction,
        run: i64,
        without: &[u16],
    ) -> Result<Option<u16>, sqlx::Error> {
        // Leases are looked at only where there is a pool.
        let endpoints = "SELECT number, weight, rate, (SELECT count(*) FROM fleet_lease l WHERE l.run = e.run \
                         AND l.endpoint = e.number) FROM fleet_endpoint e WHERE run = $1 ORDER BY number";
        let rows = sqlx::query(endpoints).bind(run).fetch_all(&mut **tx).await?;
        let burdens = rows.iter().map(|row| {
            let number = |column: usize| row.try_get::<i64, _>(column).map(count);
            let at = u16::try_from(number(0)?).unwrap_or(u16::MAX);
            Ok(Burden { number: at, weight: number(1)?, rate: number(2)?, leases: number(3)? })
        });
        let all = burdens.collect::<Result<Vec<_>, sqlx::Error>>()?;
        let left: Vec<_> = all.iter().filter(|burden| !without.contains(&burden.number)).cloned().collect();
        Ok(choose(&left).or_else(|| choose(&all)))
    }

    /// Remembers what a lease through an endpoint brought.
    pub(super) async fn endpoint_brought(
        &self,
        tx: &mut Transaction,
        (run, endpoint): (i64, i64),
        rate: i64,
    ) -> Result<(), sqlx::Error> {
        let remember = "UPDATE fleet_endpoint SET rate = CASE WHEN rate = 0 THEN $3 ELSE (3 * rate + $3) / 4 END \
                        WHERE run = $1 AND number = $2";
        changed(&mut *tx, sqlx::query(remember).bind(run).bind(endpoint).bind(rate)).await.map(drop)
    }

    /// Takes down the endpoints of a run's pool, in the order of their numbers.
    pub(super) async fn add_endpoints(
        &self,
        tx: &mut Transaction,
        run: i64,
        endpoints: &[PoolEndpoint],
    ) -> Result<(), sqlx::Error> {
        let add = "INSERT INTO fleet_endpoint (run, number, name, weight) VALUES ($1, $2, $3, $4)";
        for (number, endpoint) in endpoints.iter().enumerate() {
            let query = sqlx::query(add).bind(run).bind(whole(number as u64));
            let query = query.bind(endpoint.name.clone()).bind(i64::from(endpoint.weight));
            changed(&mut *tx, query).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `leases` leases that never end each gets, one after the other.
    fn given(weights_and_rates: &[(u64, u64)], leases: u64) -> Vec<u64> {
        let burden = |(number, &(weight, rate)): (usize, &(u64, u64))| Burden {
            number: number as u16,
            weight,
            rate,
            leases: 0,
        };
        let mut burdens: Vec<_> = weights_and_rates.iter().enumerate().map(burden).collect();
        for _ in 0..leases {
            let chosen = choose(&burdens).expect("there are some");
            burdens[usize::from(chosen)].leases += 1;
        }
        burdens.iter().map(|burden| burden.leases).collect()
    }

    #[test]
    fn leases_go_to_endpoints_by_weight_and_by_what_each_bears() {
        assert_eq!(given(&[(1, 0), (1, 0)], 8), [4, 4]);
        assert_eq!(given(&[(1, 0), (3, 0)], 8), [2, 6]);
        assert_eq!(given(&[(1, 30), (1, 90)], 8), [2, 6], "what a lease brought tells");
        assert_eq!(given(&[(3, 30), (1, 90)], 8), [4, 4]);
        assert_eq!(given(&[(1, 90), (1, 0)], 8), [4, 4], "of one that nobody tried the best is expected");
        assert!(given(&[(1, 1), (1, 1_000_000)], 40)[0] >= 1, "the worst is tried again");
        assert_eq!(choose(&[]), None);
    }
}
