use std::collections::HashSet;
use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::sync::{LazyLock, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// Binds a port of 127.0.0.1 that no server of this process had before, for a client may
/// remember what was spoken there. It lies below those that the system gives to outgoing
/// connections, which would otherwise take it while a server is restarted.
///
/// # Panics
/// When there is no free port.
#[must_use]
pub fn listen() -> TcpListener {
    /// Below 32768, where Linux begins unless told otherwise.
    const PORTS: RangeInclusive<u16> = 12_000..=32_000;
    static USED: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);
    // Other processes choose from the same: each begins somewhere else.
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH);
    let spread = seconds.unwrap().subsec_nanos() ^ std::process::id();
    let count = u32::from(PORTS.end() - PORTS.start()) + 1;
    let first = u16::try_from(spread % count).unwrap();
    let from_there = (PORTS.start() + first)..=*PORTS.end();
    let ports = from_there.chain(PORTS);
    for port in ports {
        if USED.lock().unwrap().contains(&port) {
            continue;
        }
        let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) else {
            continue;
        };
        listener.set_nonblocking(true).unwrap();
        if USED.lock().unwrap().insert(port) {
            return listener;
        }
    }
    panic!("no free port of 127.0.0.1 in {PORTS:?}");
}
