use std::time::Duration;

use axum::body::Body;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use proptest::prelude::*;

use super::*;

const MIB: u64 = 1024 * 1024;

fn connection(all: &WaitingBytes, principal: &str, limit: u64) -> ConnectionBytes {
    let connection = all.add_connection(limit);
    connection.set_principal(principal);
    connection
}

fn body_of(bytes: u64) -> Response {
    vec![b'x'; usize::try_from(bytes).unwrap()].into_response()
}

/// Reserves `bytes`, as a call with a result of this size does.
fn reserve(connection: &ConnectionBytes, bytes: u64) -> Option<ReserveFuture> {
    connection.reserve(usize::try_from(bytes).unwrap())
}

fn has_room(connection: &ConnectionBytes, bytes: u64) -> bool {
    reserve(connection, bytes).is_none()
}

fn long_ago(seconds: u64) -> Instant {
    Instant::now() - Duration::from_secs(seconds)
}

#[tokio::test]
async fn h6_a_response_counts_until_its_last_buffer_is_freed() {
    let all = WaitingBytes::default();
    let one = connection(&all, "a", 64 * MIB);
    assert!(has_room(&one, 8 * MIB));
    assert_eq!(all.total(), 8 * MIB);
    // The actual size of the response replaces the reserved size.
    let response = one.admit(&Method::POST, body_of(9 * MIB)).await;
    assert_eq!(all.total(), 9 * MIB);
    let mut body = response.into_body();
    let mut whole = body.frame().await.unwrap().unwrap().into_data().unwrap();
    drop(body);
    // The system has taken all but one byte, but the whole buffer is still in memory.
    let rest = whole.split_off(usize::try_from(9 * MIB - 1).unwrap());
    drop(whole);
    assert_eq!(all.total(), 9 * MIB);
    drop(rest);
    assert_eq!(all.total(), 0);
    // Unused reserved bytes of a request are free when the next request begins.
    assert!(has_room(&one, 3 * MIB));
    let small = one.admit(&Method::POST, body_of(10)).await;
    assert_eq!(all.total(), 10);
    drop(small);
    assert!(has_room(&one, 3 * MIB));
    one.begin_request();
    assert_eq!(all.total(), 0);
    assert!(has_room(&one, 3 * MIB));
    drop(one);
    assert_eq!(all.total(), 0);
}

#[tokio::test]
async fn h6_the_large_parts_of_a_stream_count() {
    let all = WaitingBytes::default();
    let one = connection(&all, "a", 64 * MIB);
    let parts = [3 * MIB, 1, 2 * MIB].map(|bytes| {
        let bytes = usize::try_from(bytes).unwrap();
        Ok::<_, std::convert::Infallible>(Bytes::from(vec![b'x'; bytes]))
    });
    let body = Body::from_stream(futures_util::stream::iter(parts));
    let response = one.admit(&Method::GET, Response::new(body)).await;
    // A call within the stream reserves memory after the stream has begun.
    assert!(has_room(&one, 4 * MIB));
    let mut body = response.into_body();
    let first = body.frame().await.unwrap();
    assert_eq!(all.total(), 4 * MIB);
    drop(first);
    assert_eq!(all.total(), MIB);
    drop(body.frame().await);
    let last = body.frame().await;
    assert_eq!(all.total(), 2 * MIB);
    drop((last, body));
    assert_eq!(all.total(), 0);
}

#[tokio::test(start_paused = true)]
async fn h6_the_client_that_has_stalled_longest_gives_way_to_a_call_that_waits() {
    let all = WaitingBytes::default();
    let connect = || connection(&all, "a", 64 * MIB);
    tokio::time::advance(Duration::from_secs(3_600)).await;
    let stuck = [20, 5, 10].map(|seconds| (connect(), long_ago(seconds)));
    for (one, _) in &stuck {
        assert!(has_room(one, 18 * MIB));
    }
    let look = || stuck.each_ref().map(|(one, time)| one.record_stall(*time));
    // No connection is closed unless a call waits for memory.
    assert_eq!(look(), [false; 3]);
    let next = connect();
    let waiting = reserve(&next, 8 * MIB).unwrap();
    assert_eq!(look(), [true, false, false]);
    // Only one connection is closed at a time.
    assert_eq!(look(), [false; 3]);
    let [(first, _), rest @ ..] = stuck;
    drop(first);
    waiting.await;
    assert_eq!(all.total(), 44 * MIB);
    assert!(!rest[0].0.record_stall(long_ago(5)) && !rest[1].0.record_stall(long_ago(10)));
    // The connection of a client that reads again is not closed.
    let another = reserve(&connect(), 14 * MIB);
    let [(second, _), (third, _)] = rest;
    third.clear_stall();
    assert!(second.record_stall(long_ago(5)));
    drop(another);
}

#[tokio::test]
async fn h6_a_principal_with_many_bytes_leaves_room_for_others() {
    let all = WaitingBytes::default();
    let connections = (0..100).map(|_| connection(&all, "hog", 64 * MIB));
    let hog: Vec<_> = connections.collect();
    let waiting: Vec<_> = hog.iter().filter_map(|one| reserve(one, MIB)).collect();
    // 6/7 of the limit, in whole MiB.
    assert_eq!(all.total(), 54 * MIB);
    assert_eq!(waiting.len(), 46);
    // Waiting reservations of one principal do not delay other principals.
    let others = ["b", "c", "d"].map(|name| connection(&all, name, 64 * MIB));
    for other in &others {
        assert!(has_room(other, 3 * MIB));
    }
    assert!(all.total() < 64 * MIB);
}

#[tokio::test]
async fn h6_reservations_are_granted_in_order_and_withdrawn_reservations_release_their_bytes() {
    let all = WaitingBytes::default();
    let first = connection(&all, "a", 10 * MIB);
    assert!(has_room(&first, 10 * MIB));
    let others = [1, 2, 3].map(|number| connection(&all, &format!("other {number}"), 10 * MIB));
    let large = reserve(&others[0], 8 * MIB).unwrap();
    let small = reserve(&others[1], 5 * MIB).unwrap();
    assert!(reserve(&others[2], MIB).is_some());
    drop(first);
    assert_eq!(all.total(), 8 * MIB);
    // If a call gives up after its reservation was granted, the granted bytes are released.
    drop(large);
    small.await;
    assert_eq!(all.total(), 5 * MIB);
}

#[tokio::test(start_paused = true)]
async fn h6_a_response_larger_than_the_limit_is_delivered() {
    let all = WaitingBytes::default();
    let one = connection(&all, "a", 4 * MIB);
    assert!(has_room(&one, 7 * MIB));
    let body = one.admit(&Method::POST, body_of(7 * MIB)).await;
    // The next large response waits, and is rejected if its request can be repeated.
    let other = connection(&all, "b", 4 * MIB);
    assert!(reserve(&other, MIB).is_some());
    let rejected = other.admit(&Method::GET, body_of(MIB)).await;
    assert_eq!(rejected.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(rejected.headers().contains_key(RETRY_AFTER));
    let admitted = other.admit(&Method::POST, body_of(MIB)).await;
    assert_eq!(admitted.status(), StatusCode::OK);
    // At twice the limit, every response is rejected.
    let third = connection(&all, "c", 4 * MIB);
    let rejected = third.admit(&Method::POST, body_of(MIB)).await;
    assert_eq!(rejected.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(!rejected.headers().contains_key(RETRY_AFTER));
    drop((body, admitted));
    let response_after = other.admit(&Method::GET, body_of(MIB)).await;
    assert_eq!(response_after.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_page_may_read_the_refusal_in_place_of_its_response() {
    let all = WaitingBytes::default();
    let first = connection(&all, "a", 4 * MIB);
    assert!(has_room(&first, 7 * MIB));
    let _body = first.admit(&Method::POST, body_of(7 * MIB)).await;
    let mut response = body_of(MIB);
    for (name, value) in [
        ("access-control-allow-origin", "https://page.example"),
        ("vary", "origin"),
        ("x-request-id", "7"),
        ("etag", "of the replaced body"),
    ] {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    let second = connection(&all, "b", 4 * MIB);
    let rejected = second.admit(&Method::GET, response).await;
    assert_eq!(rejected.status(), StatusCode::SERVICE_UNAVAILABLE);
    let headers = rejected.headers();
    let origin = headers.get("access-control-allow-origin").unwrap();
    assert_eq!(origin, "https://page.example");
    assert!(headers.contains_key("vary") && headers.contains_key("x-request-id"));
    assert!(!headers.contains_key("etag"));
}

#[tokio::test]
async fn h6_no_two_principals_stop_another() {
    let all = WaitingBytes::default();
    let [hog, accomplice, other] =
        ["hog", "accomplice", "other"].map(|name| connection(&all, name, 64 * MIB));
    assert!(has_room(&hog, 50 * MIB));
    // Neither reservation fits into the limit.
    let waiting = [reserve(&hog, 20 * MIB), reserve(&accomplice, 30 * MIB)];
    assert!(waiting.iter().all(Option::is_some));
    assert!(has_room(&other, 3 * MIB));
    // Only connections of the hog are closed for the reservation of the hog.
    drop(waiting);
    let _waiting = reserve(&hog, 20 * MIB);
    assert!(!other.record_stall(long_ago(60)));
    assert!(hog.record_stall(long_ago(5)));
}

#[tokio::test(start_paused = true)]
async fn h6_complete_responses_that_wait_are_limited() {
    let all = WaitingBytes::default();
    let first = connection(&all, "a", 8 * MIB);
    let held = first.admit(&Method::POST, body_of(8 * MIB)).await;
    let admissions = (0..20).map(|number| {
        let one = connection(&all, &format!("principal {number}"), 8 * MIB);
        async move {
            let started_at = Instant::now();
            let response = one.admit(&Method::GET, body_of(3 * MIB)).await;
            let is_at_once = started_at.elapsed() < Duration::from_secs(1);
            (response.status(), is_at_once)
        }
    });
    let outcomes = futures_util::future::join_all(admissions).await;
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    assert!(outcomes.iter().all(|(status, _)| *status == unavailable));
    // Two of the responses wait for 10 seconds; the limit leaves no memory for more waiting
    // responses.
    let waited = outcomes.iter().filter(|(_, is_at_once)| !is_at_once);
    assert_eq!(waited.count(), 2);
    drop(held);
}

#[tokio::test]
async fn h6_the_requests_of_one_connection_count_toward_their_own_principals() {
    let all = WaitingBytes::default();
    let one = connection(&all, "a", 64 * MIB);
    let first = one.admit(&Method::POST, body_of(10 * MIB)).await;
    one.begin_request();
    one.set_principal("b");
    assert!(!one.is_in_use() && connection(&all, "a", 64 * MIB).is_in_use());
    let second = one.admit(&Method::POST, body_of(10 * MIB)).await;
    assert!(one.is_in_use());
    drop(first);
    assert!(!connection(&all, "a", 64 * MIB).is_in_use());
    drop(second);
    assert_eq!(all.total(), 0);
}

#[tokio::test]
async fn h6_a_call_that_outlives_its_request_keeps_nothing_of_another_principal() {
    let all = WaitingBytes::default();
    let hog = connection(&all, "hog", 64 * MIB);
    assert!(has_room(&hog, 60 * MIB));
    let one = connection(&all, "a", 64 * MIB);
    let late = reserve(&one, 8 * MIB).unwrap();
    one.set_principal("b");
    drop(hog);
    late.await;
    assert_eq!(all.total(), 0);
    assert!(one.try_reserve(1_000));
    one.release(8_000_000);
    assert_eq!(all.total(), 0);
}

#[tokio::test]
async fn h6_a_call_that_outlives_its_request_releases_nothing_twice() {
    let all = WaitingBytes::default();
    let one = connection(&all, "a", 64 * MIB);
    assert!(one.try_reserve(1_000_000));
    one.begin_request();
    assert!(one.try_reserve(1_000));
    one.release(1_000_000);
    assert_eq!(all.total(), 0);
}

/// A step of a connection, which is identified by its index.
#[derive(Debug, Clone)]
enum Step {
    SetPrincipal(usize, u8),
    BeginRequest(usize),
    Reserve(usize, u64),
    TryReserve(usize, u64),
    Release(usize, u64),
    Hold(usize, u64),
    HoldPart(usize, u64),
    NoteStall(usize),
    ClearStall(usize),
    Reconnect(usize),
    /// Polls a reservation that waits.
    Poll(usize),
    DropReservation(usize),
    DropHold(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let index = 0..4_usize;
    let bytes = prop_oneof![0..100_u64, 0..40 * MIB];
    prop_oneof![
        (index.clone(), 0..3_u8).prop_map(|(one, name)| Step::SetPrincipal(one, name)),
        index.clone().prop_map(Step::BeginRequest),
        (index.clone(), bytes.clone()).prop_map(|(one, bytes)| Step::Reserve(one, bytes)),
        (index.clone(), bytes.clone()).prop_map(|(one, bytes)| Step::TryReserve(one, bytes)),
        (index.clone(), bytes.clone()).prop_map(|(one, bytes)| Step::Release(one, bytes)),
        (index.clone(), bytes.clone()).prop_map(|(one, bytes)| Step::Hold(one, bytes)),
        (index.clone(), bytes).prop_map(|(one, bytes)| Step::HoldPart(one, bytes)),
        index.clone().prop_map(Step::NoteStall),
        index.clone().prop_map(Step::ClearStall),
        index.prop_map(Step::Reconnect),
        any::<usize>().prop_map(Step::Poll),
        any::<usize>().prop_map(Step::DropReservation),
        any::<usize>().prop_map(Step::DropHold),
    ]
}

/// Removes the element at an index, modulo the length.
fn take<T>(all: &mut Vec<T>, index: usize) -> Option<T> {
    (!all.is_empty()).then(|| all.swap_remove(index % all.len()))
}

proptest! {
    #[test]
    fn h6_no_order_of_steps_loses_or_doubles_bytes(steps in prop::collection::vec(step(), 0..80)) {
        let all = WaitingBytes::default();
        let connect = || connection(&all, "0", 64 * MIB);
        let mut connections: Vec<_> = (0..4).map(|_| connect()).collect();
        let mut reservations = Vec::new();
        let mut holds: Vec<CountedHold> = Vec::new();
        for step in steps {
            match step {
                Step::SetPrincipal(one, name) => connections[one].set_principal(&name.to_string()),
                Step::BeginRequest(one) => connections[one].begin_request(),
                Step::Reserve(one, bytes) => reservations.extend(reserve(&connections[one], bytes)),
                Step::TryReserve(one, bytes) => drop(connections[one].try_reserve_bytes(bytes)),
                Step::Release(one, bytes) => connections[one].0.release_reserved(bytes),
                Step::Hold(one, bytes) => holds.push(connections[one].hold(bytes)),
                Step::HoldPart(one, bytes) => holds.push(connections[one].hold_part(bytes)),
                Step::NoteStall(one) => drop(connections[one].record_stall(Instant::now())),
                Step::ClearStall(one) => connections[one].clear_stall(),
                Step::Reconnect(one) => connections[one] = connect(),
                Step::Poll(index) => {
                    if let Some(mut reservation) = take(&mut reservations, index)
                        && (&mut reservation).now_or_never().is_none()
                    {
                        reservations.push(reservation);
                    }
                }
                Step::DropReservation(index) => drop(take(&mut reservations, index)),
                Step::DropHold(index) => drop(take(&mut holds, index)),
            }
            let ledger = all.0.ledger.lock();
            prop_assert!(ledger.is_consistent());
            let held: u64 = holds.iter().map(|hold| hold.bytes).sum();
            prop_assert!(ledger.total() >= held);
            for one in &connections {
                let own: u64 = holds
                    .iter()
                    .filter(|hold| hold.connection.0.number == one.0.number)
                    .map(|hold| hold.bytes)
                    .sum();
                let reserved = one.0.reserved_bytes.load(Ordering::Relaxed);
                prop_assert_eq!(one.0.bytes.load(Ordering::Relaxed), own + reserved);
            }
        }
        drop((reservations, connections, holds));
        let ledger = all.0.ledger.lock();
        prop_assert!(ledger.total() == 0 && ledger.is_consistent() && ledger.is_unused());
    }
}
