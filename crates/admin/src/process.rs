//! Metrics of this process from the operating system.

use lazuli_meter::{Family, Source, Value};
use lazuli_model::Timestamp;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use std::fs;

/// CPU time, memory and descriptors of the process, read from `/proc` on demand.
#[derive(Debug)]
pub struct ProcessMeter {
    pub started: Timestamp,
}

impl Source for ProcessMeter {
    fn report(&self) -> Vec<Family> {
        let gauge = |name, help, value: Option<f64>| match value {
            Some(value) => Family::of(name, help, &Value::Gauge(value)),
            None => Family::new(name, help),
        };
        let started = self.started.unix_seconds() as f64;
        let cpu = match cpu_seconds() {
            Some(seconds) => Family::of(CPU, CPU_HELP, &Value::Counter(seconds)),
            None => Family::new(CPU, CPU_HELP),
        };
        vec![
            cpu,
            gauge("process_resident_memory_bytes", "Resident memory", resident_bytes()),
            gauge("process_open_fds", "Open file descriptors", open_descriptors()),
            gauge("process_max_fds", "File descriptors that may be open", descriptors_max()),
            gauge(
                "process_start_time_seconds",
                "Start of the process, in Unix time",
                Some(started),
            ),
        ]
    }
}

const CPU: &str = "process_cpu_seconds";
const CPU_HELP: &str = "CPU time spent in user and kernel mode";

/// Fields 14 and 15 of `/proc/self/stat`, counted after the name, which may contain anything.
fn cpu_seconds() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = text.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) as f64 / clock_ticks_per_second() as f64)
}

fn resident_bytes() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some((pages * page_size() as u64) as f64)
}

fn open_descriptors() -> Option<f64> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count() as f64)
}

fn descriptors_max() -> Option<f64> {
    getrlimit(Resource::Nofile).current.map(|limit| limit as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_measured() {
        let families = ProcessMeter { started: Timestamp::from_unix_seconds(7) }.report();
        let values: Vec<_> = families
            .iter()
            .map(|family| match family.samples.first().unwrap().value {
                Value::Counter(value) | Value::Gauge(value) => value,
                Value::Histogram(_) => panic!("no histogram"),
            })
            .collect();
        let [cpu, resident, open, most, started] = values[..] else { panic!("{values:?}") };
        assert!(cpu >= 0.0 && resident > 1e6 && open >= 3.0 && most >= open, "{values:?}");
        assert_eq!(started, 7.0);
    }
}
