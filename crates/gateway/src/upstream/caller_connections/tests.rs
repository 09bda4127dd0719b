use pillion_config::ServerSettings;
use pillion_store::{MasterKey, Vault};
use serde_json::json;

use super::*;
use crate::test_support::memory_store;

#[tokio::test]
async fn l1_removing_a_credential_closes_its_unused_connection() {
    let store = memory_store().await;
    let vault = Vault::open(store, MasterKey::generate()).await.unwrap();
    let credentials = UserCredentials::default();
    credentials.set_vault(Some(Arc::new(vault)));
    let definition = json!({"label": "far", "url": "http://127.0.0.1:9/"});
    let server: ServerConfig = serde_json::from_value(definition).unwrap();
    let shared = Arc::new(UpstreamConnection::new(server.clone()));
    let section = McpServerSection::new(ServerSettings::default(), server, "far");
    let connections = CallerConnections::new(&Arc::new(section), &shared, &credentials);
    let server_id = &connections.server_id;
    for user in ["alice", "bob", "carol"] {
        let bearer = json!({"type": "bearer", "token": user});
        let credential = UserCredential::new("place".to_owned(), bearer).unwrap();
        credentials.put(server_id, user, &credential).await.unwrap();
        connections.user_connection(user, &credential).unwrap();
    }
    let connected = || {
        let mut names: Vec<_> = connections.users.lock().keys().cloned().collect();
        names.sort();
        names
    };
    connections.close_idle_connections().await;
    assert_eq!(connected(), ["alice", "bob", "carol"]);
    // Removing the credential in the store, as another process would, notifies no part of this
    // process.
    credentials.remove(server_id, "alice").await.unwrap();
    let bearer = json!({"type": "bearer", "token": "another"});
    let other = UserCredential::new("place".to_owned(), bearer).unwrap();
    credentials.put(server_id, "bob", &other).await.unwrap();
    connections.close_idle_connections().await;
    assert_eq!(connected(), ["carol"]);
}

fn link() -> Arc<ClientLink> {
    ClientLink::for_test("{}", json!({}))
}

#[tokio::test]
async fn e7_during_a_call_without_client_a_server_request_has_no_link() {
    let router = ServerRequestRouter::default();
    let alice = link();
    let _alices = router.register(Some(&alice));
    let is_alices = |link: Option<Arc<ClientLink>>| link.is_some_and(|it| Arc::ptr_eq(&it, &alice));
    assert!(
        is_alices(router.current_link()),
        "only Alice has a call at the server"
    );
    let bobs_call = router.route_messages(None, async {
        (router.current_link(), router.only_client_link())
    });
    let (in_its_task, elsewhere) = bobs_call.await;
    assert!(in_its_task.is_none(), "the request belongs to Bob's call");
    assert!(elsewhere.is_none(), "the request cannot be attributed");
    assert!(is_alices(router.current_link()), "Bob's call has ended");
    let bob = link();
    let in_bobs = router.route_messages(Some(Arc::clone(&bob)), async { router.current_link() });
    assert!(in_bobs.await.is_some_and(|it| Arc::ptr_eq(&it, &bob)));
    {
        let _bobs = router.register(Some(&bob));
        assert!(
            router.current_link().is_none(),
            "with two clients, the request belongs to neither"
        );
    }
    assert!(is_alices(router.current_link()));
}
