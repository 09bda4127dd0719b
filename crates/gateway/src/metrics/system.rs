use std::time::Duration;

/// The metrics that the operating system reports for this process (Linux: `/proc/self`).
/// Unavailable metrics are `None`.
#[derive(Debug, Clone, Default)]
pub struct SystemMetrics {
    /// Resident memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// Virtual memory, in bytes.
    pub virtual_bytes: Option<u64>,
    /// Number of threads.
    pub threads: Option<u64>,
    /// Number of open file descriptors.
    pub open_descriptors: Option<u64>,
    /// Maximum number of open file descriptors.
    pub max_descriptors: Option<u64>,
    /// CPU time in user and kernel mode.
    pub processor_time: Option<Duration>,
}

impl SystemMetrics {
    /// Reads the current values.
    #[must_use]
    pub fn read() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let entries = std::fs::read_dir("/proc/self/fd");
        // One descriptor is subtracted: that of the directory `/proc/self/fd` itself.
        let descriptors = entries.map(|entries| (entries.count() as u64).saturating_sub(1));
        Self {
            resident_bytes: find_number(&status, "VmRSS:").map(|kilobytes| kilobytes * 1024),
            virtual_bytes: find_number(&status, "VmSize:").map(|kilobytes| kilobytes * 1024),
            threads: find_number(&status, "Threads:"),
            open_descriptors: descriptors.ok(),
            max_descriptors: read_max_descriptors(),
            processor_time: read_processor_time(),
        }
    }
}

/// Returns the number that follows `key` at the beginning of a line.
fn find_number(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

fn read_max_descriptors() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    find_number(&limits, "Max open files")
}

fn read_processor_time() -> Option<Duration> {
    let cpu_time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(cpu_time.tv_sec).ok()?;
    let nanoseconds = u32::try_from(cpu_time.tv_nsec).ok()?;
    Some(Duration::new(seconds, nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_threads_and_descriptors() {
        let system = SystemMetrics::read();
        assert!(system.resident_bytes.unwrap() > 100_000, "{system:?}");
        assert!(system.threads.unwrap() > 0);
        assert!(system.open_descriptors.unwrap() > 2);
        assert!(system.processor_time.unwrap() > Duration::ZERO);
    }
}
