use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::{LazyLock, Mutex};

/// Binds a port of 127.0.0.1 that no server of this process had before: a client may
/// remember what was spoken there.
///
/// # Panics
/// When there is no free port.
#[must_use]
pub fn listen() -> TcpListener {
    static USED: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);
    // Those that were used stay bound until a new one is found, so that it is one.
    let mut passed_over = Vec::new();
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        if USED.lock().unwrap().insert(port) {
            return listener;
        }
        passed_over.push(listener);
    }
}
