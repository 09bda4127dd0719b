//! Holds the current [`App`], and replaces it when the configuration or the servers change.

use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use axum::Router;
use pillion_config::Config;
use pillion_gateway::Gateway;
use pillion_gateway::access::Access;
use pillion_gateway::events::ToolListener;

use crate::app::App;
use pillion_management::servers::RunningApp;

/// Holds the current [`App`]. Cheap to clone; all clones share one state.
///
/// Each request keeps the `App` with which it started, including routes and limits, so `State<App>`
/// in a handler never changes.
#[derive(Debug, Clone)]
pub struct CurrentApp {
    holder: Arc<AppHolder>,
}

#[derive(Debug)]
struct AppHolder(ArcSwap<RoutedApp>);

/// An [`App`] and its routes, which are built for the first request.
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
        let routed_app = ArcSwap::new(RoutedApp::new(app));
        Self {
            holder: Arc::new(AppHolder(routed_app)),
        }
    }

    /// Returns the current [`App`].
    #[must_use]
    pub fn app(&self) -> App {
        self.holder.0.load().app.clone()
    }

    /// Returns the routes of the current [`App`], which `build` builds once.
    pub(crate) fn router(&self, build: fn(App) -> Router) -> Router {
        let routed_app = self.holder.0.load();
        let router = routed_app
            .router
            .get_or_init(|| build(routed_app.app.clone()));
        router.clone()
    }

    /// Returns a function that returns this holder, as long as another clone of the holder exists.
    pub(crate) fn downgrade(&self) -> impl Fn() -> Option<Self> + Send + Sync + use<> {
        let weak_holder = Arc::downgrade(&self.holder);
        move || {
            let holder = weak_holder.upgrade()?;
            Some(Self { holder })
        }
    }

    /// Returns a weak reference to the holder of the current [`App`], which applies changes of the
    /// servers.
    pub(crate) fn application(&self) -> Weak<dyn RunningApp> {
        let application: Weak<AppHolder> = Arc::downgrade(&self.holder);
        application
    }
}

#[async_trait]
impl RunningApp for AppHolder {
    fn gateway(&self) -> Gateway {
        self.0.load().app.gateway().clone()
    }

    async fn apply(&self, config: &Config, access: Option<Access>) {
        let current_app = self.0.load_full();
        let app = current_app.app.reload(config, access).await;
        let replaced_app = self.0.swap(RoutedApp::new(app.clone()));
        app.process().set_peer_rules(&app.access().peers);
        let mcp_state = app.mcp().state();
        mcp_state.apply_gateway(&app);
        if replaced_app.app.upstreams().tools_for_clients() != app.upstreams().tools_for_clients() {
            mcp_state.tools_changed();
        }
        drop(current_app);
        let retired_app = replaced_app.app.clone();
        tokio::spawn(retired_app.retire(&app));
    }
}
