use pillion_client::{Caller, Client};
use serde_json::{Value, json};

use super::{add, ask, rejection};
use crate::mcp_server::{McpServer, Mood};
use crate::program::Daemon;

#[test]
fn f2_resources_of_one_server_are_listed_and_read() {
    let (far, ill) = (McpServer::echo(), McpServer::echo());
    let daemon = Daemon::start();
    add(&daemon, &json!({"name": "far", "url": far.url}));
    add(&daemon, &json!({"name": "ill", "url": ill.url}));
    let client = Client::new(&daemon.socket);
    let (raw, caller) = (client.raw(), Caller::default());
    let json_of = |body: Vec<u8>| serde_json::from_slice::<Value>(&body).unwrap();
    let list = json_of(raw.server_resources("far", &caller).unwrap());
    assert_json!(list["success"], true);
    assert_json!(list["total"], 2);
    assert_eq!(
        list["resources"][0],
        json!({"uri": "memo://one", "name": "one", "mimeType": "text/plain"})
    );
    assert_eq!(list.get("unavailable_servers"), None);
    let read = |uri: &str| json_of(raw.read_server_resource("far", uri, &caller).unwrap());
    assert_eq!(
        read("memo://one"),
        json!({
            "success": true,
            "content": "milk & honey",
            "mimeType": "text/plain",
            "otherContents": [{"uri": "memo://one/more", "text": "more"}],
        })
    );
    assert_eq!(
        read("memo://bytes"),
        json!({"success": true, "content": "AA==", "encoding": "base64"})
    );
    let failure = raw
        .read_server_resource("far", "memo://no?a=b&c", &caller)
        .unwrap_err();
    assert_eq!(failure.code(), "not_found");
    for query in ["", "?uri=", "?url=memo://one"] {
        let path = format!("/far/resources/read{query}");
        let (status, code, error) = rejection(&daemon, "GET", &path, &Value::Null);
        assert_eq!((status, code.as_str()), (400, "invalid_input"), "{error}");
    }
    ill.set_mood(Mood::Ill);
    let list = ask(&daemon, "GET", "/ill/resources", &Value::Null).json();
    assert_eq!(list["total"], 0);
    let error = list["unavailable_servers"][0]["error"].as_str().unwrap();
    assert_contains!(error, "500");
    let path = "/ill/resources/read?uri=memo://one";
    let (status, code, error) = rejection(&daemon, "GET", path, &Value::Null);
    assert_eq!((status, code.as_str()), (502, "unavailable"), "{error}");
    assert_contains!(error, "'ill'", "500");
}
