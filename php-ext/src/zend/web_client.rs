//! Detects under PHP-FPM that the web client of a request has disconnected.
//!
//! PHP notices a disconnect only when it writes, and it writes nothing while it waits. The
//! connection itself shows the disconnect, but FPM has no function that returns the connection to
//! extensions: its descriptor is a field of FPM's private struct `fcgi_request`, which begins the
//! same way in PHP 7 to 8.5. Therefore the descriptor is read from that struct, and used only if it
//! passes all plausibility checks.

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::BorrowedFd;

use ext_php_rs::ffi::{
    ext_php_rs_process_globals, ext_php_rs_sapi_globals, ext_php_rs_sapi_module,
};
use nix::sys::socket::sockopt::{AcceptConn, SockType as TypeOf};
use nix::sys::socket::{
    AddressFamily, SockType, SockaddrLike, SockaddrStorage, getsockname, getsockopt,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The first fields of FPM's `struct _fcgi_request` (`main/fastcgi.c`).
#[repr(C)]
struct Request {
    listen_socket: c_int,
    _tcp: c_int,
    connection: c_int,
    _id: c_int,
    /// Whether the connection stays open after the request.
    keep: c_int,
}

/// Returns whether no client waits any more for the response of this request. Returns false if this
/// cannot be determined, and if a disconnect must not end the request (`ignore_user_abort`).
pub(super) fn is_disconnected() -> bool {
    // SAFETY: the code only reads the globals of this thread and the table of the SAPI, which lives
    // as long as PHP.
    let context = unsafe {
        if (*ext_php_rs_process_globals()).ignore_user_abort {
            return false;
        }
        let name = (*ext_php_rs_sapi_module()).name;
        if name.is_null() || CStr::from_ptr(name) != c"fpm-fcgi" {
            return false;
        }
        (*ext_php_rs_sapi_globals()).server_context
    };
    connection_of(context).is_some_and(has_disconnected)
}

fn connection_of(context: *mut c_void) -> Option<(BorrowedFd<'static>, AddressFamily)> {
    // SAFETY: FPM's context is its request, which lives as long as the PHP request and is larger
    // than the fields that are read.
    let request = unsafe { context.cast::<Request>().as_ref() }?;
    // A web server that keeps its connections may close one after fastcgi_finish_request() without
    // any loss, which looks the same as a client that has disconnected.
    if request.keep != 0 || request.listen_socket < 0 || request.connection < 0 {
        return None;
    }
    // SAFETY: the descriptors are not negative, and are only queried. If they are not file
    // descriptors, the system returns an error.
    let (listener, connection) = unsafe {
        (
            BorrowedFd::borrow_raw(request.listen_socket),
            BorrowedFd::borrow_raw(request.connection),
        )
    };
    let is_stream = |socket| getsockopt(socket, TypeOf) == Ok(SockType::Stream);
    let family = family(request.connection)?;
    let fits = is_stream(&listener)
        && is_stream(&connection)
        && getsockopt(&listener, AcceptConn) == Ok(true)
        && getsockopt(&connection, AcceptConn) == Ok(false)
        && self::family(request.listen_socket)? == family;
    fits.then_some((connection, family))
}

fn family(socket: c_int) -> Option<AddressFamily> {
    getsockname::<SockaddrStorage>(socket).ok()?.family()
}

fn has_disconnected((connection, family): (BorrowedFd<'_>, AddressFamily)) -> bool {
    // With a Unix socket, a full close can be distinguished from a half-closed connection. With
    // TCP, both look the same and count as a disconnect: a web server closes a connection to abort
    // its request (FastCGI 1.0, 5.4), and has no other reason to close it.
    let end_of_input = match family {
        AddressFamily::Unix => PollFlags::empty(),
        _ => PollFlags::RDHUP,
    };
    let mut descriptors = [PollFd::from_borrowed_fd(connection, end_of_input)];
    let now = Timespec::default();
    let is_ready = poll(&mut descriptors, Some(&now)).is_ok_and(|ready| ready > 0);
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    is_ready && descriptors[0].revents().intersects(gone)
}
