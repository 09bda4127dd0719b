//! The current [`App`], and its replacement.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use axum::Router;

use crate::app::App;

/// Holds the current [`App`]. Cheap to clone; all clones share one state.
///
/// Each request keeps the `App` with which it started, including routes and limits, so `State<App>`
/// in a handler never changes.
#[derive(Debug, Clone)]
pub struct CurrentApp {
    current: Arc<ArcSwap<RoutedApp>>,
}

/// A function that builds the routes for an [`App`].
pub type Routes = fn(App) -> Router;

/// An [`App`] with its routes.
#[derive(Debug)]
struct RoutedApp {
    app: App,
    router: Router,
    routes: Routes,
}

impl RoutedApp {
    fn of(app: App, routes: Routes) -> Arc<Self> {
        let router = routes(app.clone());
        Arc::new(Self {
            app,
            router,
            routes,
        })
    }
}

impl CurrentApp {
    /// Creates the holder of `app`. `routes` builds the routes for `app` and all its replacements.
    #[must_use]
    pub fn new(app: App, routes: Routes) -> Self {
        let current = Arc::new(ArcSwap::new(RoutedApp::of(app, routes)));
        Self { current }
    }

    /// Returns the holder that `app` belongs to, or a new one if `app` is never replaced.
    pub(crate) fn of(app: &App, routes: Routes) -> Self {
        let current_app = app.servers().and_then(|servers| servers.current_app());
        current_app.unwrap_or_else(|| Self::new(app.clone(), routes))
    }

    /// Returns the current [`App`].
    #[must_use]
    pub fn app(&self) -> App {
        self.current.load().app.clone()
    }

    /// Returns the current routes.
    pub(crate) fn router(&self) -> Router {
        self.current.load().router.clone()
    }

    /// Returns a weak reference.
    pub(crate) fn downgrade(&self) -> WeakCurrentApp {
        WeakCurrentApp(Arc::downgrade(&self.current))
    }

    /// Replaces the current [`App`]. Returns the previous one, for [`App::retire`].
    pub fn replace(&self, app: App) -> App {
        let routes = self.current.load().routes;
        self.current.swap(RoutedApp::of(app, routes)).app.clone()
    }
}

/// A weak reference to a [`CurrentApp`].
#[derive(Debug, Clone)]
pub(crate) struct WeakCurrentApp(Weak<ArcSwap<RoutedApp>>);

impl WeakCurrentApp {
    pub(crate) fn upgrade(&self) -> Option<CurrentApp> {
        let current = self.0.upgrade()?;
        Some(CurrentApp { current })
    }
}
