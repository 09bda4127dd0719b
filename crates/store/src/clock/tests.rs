use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600 * SECOND;
const DAY: i64 = 24 * HOUR;

/// A machine, with the true time of its boot and the error of its system clock.
struct Machine {
    boot_id: u64,
    booted_at: i64,
    error: i64,
    /// The reading that the running process of this machine has stored; `None` after a restart.
    stored: Option<StoredReading>,
}

impl Machine {
    fn reading(&self, now: i64) -> ClockReading {
        ClockReading {
            boot_id: self.boot_id.to_string(),
            uptime: now - self.booted_at,
            wall_time: now + self.error,
        }
    }
}

/// A record, with the true time and the time of the system clock when the record was written.
struct Record {
    at: i64,
    wall_time: i64,
}

struct World {
    random: StdRng,
    now: i64,
    machines: Vec<Machine>,
    history: ClockHistory,
    records: Vec<Record>,
    max_age: i64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let now = 1_790_000_000 * SECOND;
        let machines = (0..random.random_range(1..=3))
            .map(|boot_id| Machine {
                boot_id,
                booted_at: now - random.random_range(0..DAY),
                error: 0,
                stored: None,
            })
            .collect();
        let max_age = [HOUR, DAY, 30 * DAY][random.random_range(0..3)];
        Self {
            random,
            now,
            machines,
            history: ClockHistory::default(),
            records: Vec::new(),
            max_age,
        }
    }

    /// Returns a duration of any magnitude up to twice the retention.
    fn duration(&mut self) -> i64 {
        let max = 2 * self.max_age;
        let shift = self.random.random_range(0..max.ilog2());
        self.random.random_range(0..max >> shift)
    }

    fn write(&mut self, machine: usize) {
        let delay = match self.random.random_range(0..4) {
            0 => self.duration(),
            _ => 0,
        };
        let machine = &mut self.machines[machine];
        let reading = machine.reading(self.now);
        let wall_time = reading.wall_time - delay;
        let (earliest_time, latest_time) = (
            wall_time.min(reading.wall_time),
            wall_time.max(reading.wall_time),
        );
        let stored = machine.stored;
        if !stored
            .is_some_and(|stored| stored.is_sufficient_for(&reading, earliest_time, latest_time))
        {
            self.history
                .add_with_times(&reading, earliest_time, latest_time);
            machine.stored = Some(StoredReading::new(&reading, earliest_time, latest_time));
        }
        self.records.push(Record {
            at: self.now,
            wall_time,
        });
    }

    /// Removes the records that may be removed, as the clean-up of the store does.
    fn clean_up(&mut self, machine: usize) {
        let machine = &mut self.machines[machine];
        let reading = machine.reading(self.now);
        self.history.add(&reading);
        machine.stored = Some(StoredReading::new(
            &reading,
            reading.wall_time,
            reading.wall_time,
        ));
        let json = serde_json::to_string(&self.history).unwrap();
        self.history = serde_json::from_str(&json).unwrap();
        let age = Duration::from_millis(self.max_age.unsigned_abs());
        let Some((cutoff, range)) = self
            .history
            .cutoff_for_age(age)
            .zip(self.history.readings_during(age))
        else {
            return;
        };
        let latest_time = range.latest_reading.as_millis() + HOUR;
        let (now, max_age) = (self.now, self.max_age);
        self.records.retain(|record| {
            let is_removed =
                record.wall_time < cutoff.as_millis() || record.wall_time > latest_time;
            let age = now - record.at;
            assert!(!is_removed || age >= max_age, "removed after {age} ms");
            !is_removed
        });
    }

    fn step(&mut self) {
        let machine = self.random.random_range(0..self.machines.len());
        match self.random.random_range(0..12) {
            0 => {
                let change = self.duration();
                let sign = [-1, 1][self.random.random_range(0..2)];
                self.machines[machine].error += sign * change * self.random.random_range(1..=3);
            }
            1 => self.machines[machine].error = 0,
            // The process restarts, or another process takes over.
            2 => self.machines[machine].stored = None,
            3 => {
                let machine = &mut self.machines[machine];
                machine.boot_id += 1_000;
                machine.booted_at = self.now;
                machine.stored = None;
            }
            4..=5 => self.clean_up(machine),
            6 => self.now += self.duration(),
            _ => {
                self.write(machine);
                self.now += self.random.random_range(0..HOUR);
            }
        }
    }
}

#[test]
fn no_history_of_clocks_removes_a_record_early_and_every_record_is_removed() {
    let seed: u64 = std::env::var("PILLION_CLOCK_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    for seed in seed..seed + 100 {
        eprintln!("PILLION_CLOCK_SEED={seed}");
        let mut world = World::new(seed);
        for _ in 0..600 {
            world.step();
        }
        for machine in &mut world.machines {
            machine.error = 0;
            machine.stored = None;
        }
        let end = world.now + 10 * world.max_age;
        let (machines, interval) = match world.max_age {
            HOUR => (world.machines.len(), 600 * SECOND),
            // The uptime of a single machine counts, however rarely its clock is read.
            age => (1, age / 20),
        };
        while world.now < end && !world.records.is_empty() {
            for machine in 0..machines {
                world.clean_up(machine);
            }
            world.now += interval;
        }
        assert!(world.records.is_empty(), "{} left", world.records.len());
    }
}

#[test]
fn a_clock_that_is_ahead_at_a_start_removes_nothing() {
    let mut history = ClockHistory::default();
    let month = Duration::from_secs(30 * 24 * 3_600);
    let reading = |day: i64, ahead: i64| ClockReading {
        boot_id: "one".to_owned(),
        uptime: day * DAY,
        wall_time: (20_000 + day + ahead) * DAY,
    };
    assert_eq!(history.add(&reading(0, 0)), None);
    assert_eq!(
        history.cutoff_for_age(month),
        None,
        "too young for any conclusion"
    );
    assert_eq!(history.add(&reading(31, 0)), None);
    let usual_cutoff = history.cutoff_for_age(month).unwrap();
    assert_eq!(history.add(&reading(31, 40)), Some(40 * DAY));
    assert_eq!(history.cutoff_for_age(month), Some(usual_cutoff));
    // The system clock is behind: records of this time are young, whatever time they contain.
    assert_eq!(history.add(&reading(32, -100)), Some(-140 * DAY));
    let earliest_time = history
        .readings_during(month)
        .unwrap()
        .earliest_reading
        .as_millis();
    assert_eq!(earliest_time, (20_000 + 32 - 100) * DAY);
}

#[test]
fn the_uptime_of_the_store_continues_over_restarts_but_not_over_boots() {
    let mut history = ClockHistory::default();
    let mut add_reading = |boot_id: &str, uptime: i64| {
        history.add(&ClockReading {
            boot_id: boot_id.to_owned(),
            uptime,
            wall_time: uptime,
        });
        history.store_uptime
    };
    assert_eq!(add_reading("one", 100), 0);
    assert_eq!(add_reading("one", 250), 150);
    assert_eq!(add_reading("two", 10), 150);
    assert_eq!(add_reading("two", 20), 160);
    assert_eq!(add_reading("one", 300), 200);
    // Another machine starts with a copy of the first machine's memory.
    assert_eq!(add_reading("one", 200), 200);
}
