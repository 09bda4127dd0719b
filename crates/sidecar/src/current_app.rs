//! The current [`App`], and its replacement.

use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use axum::Router;
use pillion_config::Config;
use pillion_gateway::Gateway;
use pillion_gateway::access::Access;
use pillion_gateway::events::ToolListener;

use crate::app::App;
use crate::servers::Application;

/// Holds the current [`App`]. Cheap to clone; all clones share one state.
///
/// Each request keeps the `App` with which it started, including routes and limits, so `State<App>`
/// in a handler never changes.
#[derive(Debug, Clone)]
pub struct CurrentApp {
    current: Arc<Current>,
}

#[derive(Debug)]
struct Current(ArcSwap<RoutedApp>);

/// An [`App`] with its routes, which the first request builds.
#[derive(Debug)]
struct RoutedApp {
    app: App,
    router: OnceLock<Router>,
}

impl RoutedApp {
    fn new(app: App) -> Arc<Self> {
        let router = OnceLock::new();
        Arc::new(Self { app, router })
    }
}

impl CurrentApp {
    /// Creates the holder of `app`.
    #[must_use]
    pub fn new(app: App) -> Self {
        let current = ArcSwap::new(RoutedApp::new(app));
        Self {
            current: Arc::new(Current(current)),
        }
    }

    /// Returns the current [`App`].
    #[must_use]
    pub fn app(&self) -> App {
        self.current.0.load().app.clone()
    }

    /// Returns the routes of the current [`App`], which `build` builds once.
    pub(crate) fn router(&self, build: fn(App) -> Router) -> Router {
        let current = self.current.0.load();
        let router = current.router.get_or_init(|| build(current.app.clone()));
        router.clone()
    }

    /// Returns a function that returns this holder, as long as another clone of the holder exists.
    pub(crate) fn downgrade(&self) -> impl Fn() -> Option<Self> + Send + Sync + use<> {
        let current = Arc::downgrade(&self.current);
        move || {
            let current = current.upgrade()?;
            Some(Self { current })
        }
    }

    /// Returns a weak reference through which changes of the servers are applied.
    pub(crate) fn application(&self) -> Weak<dyn Application> {
        let application: Weak<Current> = Arc::downgrade(&self.current);
        application
    }
}

#[async_trait]
impl Application for Current {
    fn gateway(&self) -> Gateway {
        self.0.load().app.gateway().clone()
    }

    async fn apply(&self, config: &Config, access: Option<Access>) {
        let before = self.0.load_full();
        let app = before.app.reload(config, access).await;
        let old = self.0.swap(RoutedApp::new(app.clone()));
        app.process().set_peer_rules(&app.access().peers);
        let clients = app.mcp().state();
        clients.servers_changed(&app);
        if old.app.upstreams().tools_for_clients() != app.upstreams().tools_for_clients() {
            clients.tools_changed();
        }
        drop(before);
        let old = old.app.clone();
        tokio::spawn(old.retire(&app));
    }
}
