use std::collections::HashSet;
use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::sync::{LazyLock, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// Binds a port of 127.0.0.1 that no server of this process has used before, because clients may
/// cache the protocol of a URL. The port is below the range for outgoing connections: otherwise, an
/// outgoing connection could take the port while a server restarts.
///
/// # Panics
/// If there is no free port.
#[must_use]
pub fn listen() -> TcpListener {
    /// The ports are below 32768, the default beginning of Linux's range for outgoing connections.
    const PORTS: RangeInclusive<u16> = 12_000..=32_000;
    static USED: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);
    // Other test processes use the same range, so each process begins at another port.
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
