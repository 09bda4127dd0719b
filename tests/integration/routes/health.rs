use crate::prelude::*;

#[test]
fn the_sidecar_reports_that_it_is_up() {
    let sidecar = Sidecar::start();
    let health = sidecar.client().fetch(route::HEALTH).unwrap();
    assert_eq!(health.status, "ok");
    assert_eq!(health.version, env!("CARGO_PKG_VERSION"));
    assert_eq!(
        health.tools,
        sidecar.client().fetch(route::LIST_TOOLS).unwrap().total
    );
}
