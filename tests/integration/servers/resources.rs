use super::*;

#[test]
fn f2_resources_of_one_server_are_listed_and_read() {
    let (far, ill) = (McpServer::echo(), McpServer::echo());
    let daemon = Daemon::start();
    add(&daemon, &json!({"name": "far", "url": far.url}));
    add(&daemon, &json!({"name": "ill", "url": ill.url}));
    let client = daemon.client();
    let list = client.request(route::LIST_SERVER_RESOURCES, ["far"]);
    let list: Value = serde_json::from_slice(list.send().unwrap().body()).unwrap();
    assert_json!(list["success"], true);
    assert_json!(list["total"], 2);
    let expected = json!({"uri": "memo://one", "name": "one", "mimeType": "text/plain"});
    assert_eq!(list["resources"][0], expected);
    assert_eq!(list.get("unavailable_servers"), None);
    let request = |uri: &str| {
        let request = client.request(route::READ_SERVER_RESOURCE, ["far"]);
        request.query([("uri", uri)]).send()
    };
    let read = |uri: &str| serde_json::from_slice::<Value>(request(uri).unwrap().body()).unwrap();
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
    let failure = request("memo://no?a=b&c").unwrap_err();
    assert_eq!(failure.code(), "not_found");
    for query in ["", "?uri=", "?url=memo://one"] {
        let path = format!("/far/resources/read{query}");
        let (status, code, error) = rejection(&daemon, "GET", &path, &Value::Null);
        assert_eq!((status, code.as_str()), (400, "invalid_input"), "{error}");
    }
    ill.set_mood(Mood::Ill);
    let list = ask(&daemon, "GET", "/ill/resources", &Value::Null).json();
    assert_eq!(list["total"], 0);
    let error = list["unavailable_servers"][0]["error"].text();
    assert_contains!(error, "500");
    let path = "/ill/resources/read?uri=memo://one";
    let (status, code, error) = rejection(&daemon, "GET", path, &Value::Null);
    assert_eq!((status, code.as_str()), (502, "unavailable"), "{error}");
    assert_contains!(error, "'ill'", "500");
}
