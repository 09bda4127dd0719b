use crate::http::Reply;
use crate::prelude::*;

/// The paths of the lists that have an ETag.
const LISTS: [&str; 6] = [
    "/api/v1/tools",
    "/api/v1/tools/schemas?category=math",
    "/api/v1/servers",
    "/api/v1/pins",
    "/api/v1/approvals?limit=5",
    "/api/v1/workers",
];

fn again(daemon: &Daemon, list: &str, tag: &str) -> Reply {
    let known = format!("if-none-match: {tag}\r\n");
    daemon.get_with(list, &known)
}

fn tag_of(reply: &Reply) -> String {
    let line = reply
        .head
        .lines()
        .find_map(|line| line.strip_prefix("etag: "));
    line.unwrap().to_owned()
}

#[test]
fn i4_an_unchanged_list_gives_status_304() {
    let daemon = Daemon::start();
    for list in LISTS {
        let first = daemon.get(list);
        assert_eq!(first.status, 200, "{list}");
        assert_contains!(first.head, "content-type: application/json");
        let tag = tag_of(&first);
        let second = again(&daemon, list, &tag);
        assert_eq!((second.status, second.body.len()), (304, 0), "{list}");
        assert_eq!(tag_of(&second), tag, "{list}");
        let other = again(&daemon, list, "\"other\"");
        assert_eq!((other.status, &other.body), (200, &first.body), "{list}");
    }
}

#[test]
fn i4_a_changed_list_is_sent_again() {
    let daemon = Daemon::with_config("[approvals]\npolicy = \"always-ask\"\n");
    let list = "/api/v1/approvals";
    let before = tag_of(&daemon.get(list));
    let reply = daemon.post("/api/v1/tools/execute/get_time", "{}");
    assert_eq!(reply.json()["result"]["error_code"], "approval_required");
    let after = again(&daemon, list, &before);
    assert_eq!(after.expect(200)["approvals"][0]["tool"], "get_time");
    assert_ne!(tag_of(&after), before);
}
