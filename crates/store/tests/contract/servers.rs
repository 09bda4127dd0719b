use std::sync::Arc;

use pillion_core::store::{RecordOwner, ServerRecord, Store, StoreErrorKind, ToolPin};

use super::{assert_fails, at, pin, running};

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
    assert_eq!(store.find_server("1").await.unwrap().unwrap(), dice);
    assert_eq!(
        store.find_server_by_name("dice").await.unwrap().unwrap(),
        dice
    );
    assert_eq!(store.find_server("3").await.unwrap(), None);

    dice.name = "dice two".to_owned();
    dice.configuration = "{}".to_owned();
    dice.enabled = false;
    dice.updated_at = at(2);
    let other_birthday = ServerRecord {
        created_at: at(99),
        ..dice.clone()
    };
    let renamed = store
        .update_server(&other_birthday, RecordOwner::StoredServer)
        .await;
    renamed.unwrap();
    store.mark_server_connected("1", at(3)).await.unwrap();
    dice.last_connected_at = Some(at(3));
    let all = store.servers().await.unwrap();
    assert_eq!(all, [server("2", "cards"), dice]);

    let missing = server("3", "x");
    let updated = store
        .update_server(&missing, RecordOwner::StoredServer)
        .await;
    assert_fails(updated, StoreErrorKind::NotFound);
    let removed = store.remove_server("3", RecordOwner::StoredServer).await;
    assert_fails(removed, StoreErrorKind::NotFound);
}

pub async fn f1_names_and_ids_are_unique(store: Arc<dyn Store>) {
    store.insert_server(&server("1", "dice")).await.unwrap();
    store.insert_server(&server("2", "cards")).await.unwrap();
    for taken in [server("1", "new"), server("3", "dice")] {
        assert_fails(store.insert_server(&taken).await, StoreErrorKind::Conflict);
    }
    let taken = server("2", "dice");
    let renamed = store.update_server(&taken, RecordOwner::StoredServer).await;
    assert_fails(renamed, StoreErrorKind::Conflict);
    assert_eq!(store.servers().await.unwrap().len(), 2);
}

pub async fn f2_removing_a_server_removes_its_calls_and_pins(store: Arc<dyn Store>) {
    for id in ["1", "2"] {
        store.insert_server(&server(id, id)).await.unwrap();
        let mut call = running("roll");
        call.server = Some(id.to_owned());
        store.record_call(call).await.unwrap();
        let pin = pin(id, "roll", "h");
        store.insert_pin(&pin).await.unwrap();
        let user = Some("alice".to_owned());
        store.insert_pin(&ToolPin { user, ..pin }).await.unwrap();
    }
    store
        .remove_server("1", RecordOwner::StoredServer)
        .await
        .unwrap();
    assert_eq!(store.find_server("1").await.unwrap(), None);
    assert!(store.server_pins("1").await.unwrap().is_empty());
    assert_eq!(store.server_pins("2").await.unwrap().len(), 2);
    assert_eq!(servers_of_calls(&*store).await, ["2"]);
}

pub async fn servers_of_calls(store: &dyn Store) -> Vec<String> {
    let calls = store.calls(&Default::default(), &Default::default()).await;
    let servers = calls.unwrap().items.into_iter().map(|call| call.server);
    let mut names: Vec<_> = servers.map(Option::unwrap).collect();
    names.sort();
    names
}

pub async fn f2_records_follow_the_name_of_a_server(store: Arc<dyn Store>) {
    let mut dice = server("1", "dice");
    store.insert_server(&dice).await.unwrap();
    for name in ["dice", "cards"] {
        let mut call = running("roll");
        call.server = Some(name.to_owned());
        store.record_call(call).await.unwrap();
    }
    // The second pin belongs to a removed server.
    for (server, hash) in [("dice", "own"), ("dice two", "stale")] {
        let pinned = store.insert_pin(&pin(server, "roll", hash)).await;
        pinned.unwrap();
    }
    dice.name = "dice two".to_owned();
    store
        .update_server(&dice, RecordOwner::StoredServer)
        .await
        .unwrap();
    assert_eq!(servers_of_calls(&*store).await, ["cards", "dice two"]);
    assert!(store.server_pins("dice").await.unwrap().is_empty());
    assert_eq!(store.server_pins("dice two").await.unwrap()[0].hash, "own");
    store
        .remove_server("1", RecordOwner::StoredServer)
        .await
        .unwrap();
    assert_eq!(servers_of_calls(&*store).await, ["cards"]);
    assert!(store.server_pins("dice two").await.unwrap().is_empty());
}
