use std::sync::Arc;

use pillion_core::store::{RecordOwner, ServerRecord, Store, ToolPin};

use super::{at, running};

pub fn server(id: &str, name: &str) -> ServerRecord {
    ServerRecord {
        id: id.to_owned(),
        name: name.to_owned(),
        configuration: r#"{"url":"https://dice.example/mcp"}"#.to_owned(),
        enabled: true,
        last_connected_at: None,
        created_at: at(1),
        updated_at: at(1),
    }
}

pub async fn f1_servers_are_stored_and_changed(store: Arc<dyn Store>) {
    let mut dice = server("1", "dice");
    store.insert_server(&dice).await.unwrap();
    store.insert_server(&server("2", "cards")).await.unwrap();
    assert_eq!(store.server("1").await.unwrap().unwrap(), dice);
    assert_eq!(store.server_named("dice").await.unwrap().unwrap(), dice);
    assert_eq!(store.server("3").await.unwrap(), None);

    dice.name = "dice two".to_owned();
    dice.configuration = "{}".to_owned();
    dice.enabled = false;
    dice.updated_at = at(2);
    let other_birthday = ServerRecord {
        created_at: at(99),
        ..dice.clone()
    };
    store
        .update_server(&other_birthday, RecordOwner::Own)
        .await
        .unwrap();
    store.mark_server_connected("1", at(3)).await.unwrap();
    dice.last_connected_at = Some(at(3));
    let all = store.servers().await.unwrap();
    assert_eq!(all, [server("2", "cards"), dice]);

    let missing = store
        .update_server(&server("3", "x"), RecordOwner::Own)
        .await
        .unwrap_err();
    assert!(missing.is_not_found(), "{missing:?}");
    let missing = store
        .remove_server("3", RecordOwner::Own)
        .await
        .unwrap_err();
    assert!(missing.is_not_found(), "{missing:?}");
}

pub async fn f1_names_and_ids_are_unique(store: Arc<dyn Store>) {
    store.insert_server(&server("1", "dice")).await.unwrap();
    store.insert_server(&server("2", "cards")).await.unwrap();
    for taken in [server("1", "new"), server("3", "dice")] {
        let refused = store.insert_server(&taken).await.unwrap_err();
        assert!(refused.is_conflict(), "{refused:?}");
    }
    let refused = store
        .update_server(&server("2", "dice"), RecordOwner::Own)
        .await
        .unwrap_err();
    assert!(refused.is_conflict(), "{refused:?}");
    assert_eq!(store.servers().await.unwrap().len(), 2);
}

pub async fn f2_removing_a_server_removes_its_calls_and_pins(store: Arc<dyn Store>) {
    for id in ["1", "2"] {
        store.insert_server(&server(id, id)).await.unwrap();
        let mut call = running("roll");
        call.server = Some(id.to_owned());
        store.record_call(call).await.unwrap();
        let pin = ToolPin {
            server: id.to_owned(),
            user: None,
            tool: "roll".to_owned(),
            hash: "h".to_owned(),
            definition: "{}".to_owned(),
            accepted_at: at(1),
            pending: None,
        };
        store.insert_pin(&pin).await.unwrap();
        let user = Some("alice".to_owned());
        store.insert_pin(&ToolPin { user, ..pin }).await.unwrap();
    }
    store.remove_server("1", RecordOwner::Own).await.unwrap();
    assert_eq!(store.server("1").await.unwrap(), None);
    assert!(store.server_pins("1").await.unwrap().is_empty());
    assert_eq!(store.server_pins("2").await.unwrap().len(), 2);
    let left = store.calls(&Default::default(), &Default::default()).await;
    let left = left.unwrap().items;
    let servers: Vec<_> = left.iter().map(|call| call.server.as_deref()).collect();
    assert_eq!(servers, [Some("2")]);
}

pub async fn f2_records_follow_the_name_of_a_server(store: Arc<dyn Store>) {
    let mut dice = server("1", "dice");
    store.insert_server(&dice).await.unwrap();
    let pin = |server: &str, hash: &str| ToolPin {
        server: server.to_owned(),
        user: None,
        tool: "roll".to_owned(),
        hash: hash.to_owned(),
        definition: "{}".to_owned(),
        accepted_at: at(1),
        pending: None,
    };
    for name in ["dice", "cards"] {
        let mut call = running("roll");
        call.server = Some(name.to_owned());
        store.record_call(call).await.unwrap();
    }
    store.insert_pin(&pin("dice", "own")).await.unwrap();
    // A pin of a removed server.
    store.insert_pin(&pin("dice two", "stale")).await.unwrap();
    dice.name = "dice two".to_owned();
    store.update_server(&dice, RecordOwner::Own).await.unwrap();
    let calls = async || {
        let calls = store.calls(&Default::default(), &Default::default()).await;
        let calls = calls.unwrap().items.into_iter();
        let mut servers: Vec<_> = calls.filter_map(|call| call.server).collect();
        servers.sort();
        servers
    };
    assert_eq!(calls().await, ["cards", "dice two"]);
    assert!(store.server_pins("dice").await.unwrap().is_empty());
    assert_eq!(store.server_pins("dice two").await.unwrap()[0].hash, "own");
    store.remove_server("1", RecordOwner::Own).await.unwrap();
    assert_eq!(calls().await, ["cards"]);
    assert!(store.server_pins("dice two").await.unwrap().is_empty());
}
