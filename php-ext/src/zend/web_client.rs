//! Detects under PHP-FPM that the web client of a request has disconnected.
//!
//! PHP notices a disconnect only when it writes output, and PHP writes no output while it waits for
//! the engine. The state of the socket shows the disconnect, but FPM has no function that gives
//! extensions the socket: the socket's descriptor is a field of FPM's private struct
//! `fcgi_request`, which begins the same way in PHP 7 to 8.5. Therefore the descriptor is read from
//! that struct, and used only if it passes all plausibility checks.

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::BorrowedFd;

use ext_php_rs::ffi::{
    ext_php_rs_process_globals, ext_php_rs_sapi_globals, ext_php_rs_sapi_module,
};
use nix::sys::socket::sockopt::{AcceptConn, SockType as SockTypeOption};
use nix::sys::socket::{
    AddressFamily, SockType, SockaddrLike, SockaddrStorage, getsockname, getsockopt,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The first fields of FPM's `struct _fcgi_request` (`main/fastcgi.c`).
#[repr(C)]
struct FcgiRequest {
    listen_socket: c_int,
    _tcp: c_int,
    connection: c_int,
    _id: c_int,
    /// Whether the connection stays open after the request.
    keeps_connection: c_int,
}

/// Returns whether the web client of this request has disconnected. Returns false if the state of
/// the connection cannot be determined, and if a disconnect must not end the request
/// (`ignore_user_abort`).
pub(super) fn is_disconnected() -> bool {
    // SAFETY: the code only reads the globals of this thread and the table of the SAPI, which lives
    // as long as PHP.
    let server_context = unsafe {
        if (*ext_php_rs_process_globals()).ignore_user_abort {
            return false;
        }
        let name = (*ext_php_rs_sapi_module()).name;
        if name.is_null() || CStr::from_ptr(name) != c"fpm-fcgi" {
            return false;
        }
        (*ext_php_rs_sapi_globals()).server_context
    };
    find_connection(server_context).is_some_and(has_disconnected)
}

fn find_connection(server_context: *mut c_void) -> Option<(BorrowedFd<'static>, AddressFamily)> {
    // SAFETY: FPM's context is its request, which lives as long as the PHP request and is larger
    // than the fields that are read.
    let request = unsafe { server_context.cast::<FcgiRequest>().as_ref() }?;
    // The check is skipped after fastcgi_finish_request(): a web server may then close a keep-alive
    // connection although the response is complete, which looks like a disconnected client.
    if request.keeps_connection != 0 || request.listen_socket < 0 || request.connection < 0 {
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
    let is_stream = |socket| getsockopt(socket, SockTypeOption) == Ok(SockType::Stream);
    let family = address_family(request.connection)?;
    let is_plausible = is_stream(&listener)
        && is_stream(&connection)
        && getsockopt(&listener, AcceptConn) == Ok(true)
        && getsockopt(&connection, AcceptConn) == Ok(false)
        && address_family(request.listen_socket)? == family;
    is_plausible.then_some((connection, family))
}

fn address_family(socket: c_int) -> Option<AddressFamily> {
    getsockname::<SockaddrStorage>(socket).ok()?.family()
}

fn has_disconnected((connection, family): (BorrowedFd<'_>, AddressFamily)) -> bool {
    // With a Unix socket, a full close can be distinguished from a half-closed connection. With
    // TCP, both look the same and count as a disconnect: a web server closes a connection to abort
    // its request (FastCGI 1.0, 5.4), and has no other reason to close it.
    let end_of_input_flag = match family {
        AddressFamily::Unix => PollFlags::empty(),
        _ => PollFlags::RDHUP,
    };
    let mut descriptors = [PollFd::from_borrowed_fd(connection, end_of_input_flag)];
    let zero_timeout = Timespec::default();
    let is_ready =
        poll(&mut descriptors, Some(&zero_timeout)).is_ok_and(|ready_count| ready_count > 0);
    let disconnect_flags = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    is_ready && descriptors[0].revents().intersects(disconnect_flags)
}
