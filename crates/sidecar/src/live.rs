//! The state that new requests are served with, and how another takes its place.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use axum::Router;

use crate::app::App;

/// The [`App`] of now. Cheap to clone; clones show the same one.
///
/// Each request takes the state of the moment it came and keeps it to its end, routes and
/// limits included; what handlers see of it as `State<App>` never changes under them.
#[derive(Debug, Clone)]
pub struct Live {
    current: Arc<ArcSwap<Generation>>,
}

/// Makes the routes over a state.
pub type Routes = fn(App) -> Router;

/// A state, and the routes over it.
#[derive(Debug)]
struct Generation {
    app: App,
    router: Router,
    routes: Routes,
}

impl Generation {
    fn of(app: App, routes: Routes) -> Arc<Self> {
        let router = routes(app.clone());
        Arc::new(Self {
            app,
            router,
            routes,
        })
    }
}

impl Live {
    /// Begins with `app`; over it, and over each that takes its place, there are these routes.
    #[must_use]
    pub fn new(app: App, routes: Routes) -> Self {
        let current = Arc::new(ArcSwap::new(Generation::of(app, routes)));
        Self { current }
    }

    /// What `app` is the state of; that state alone for one that nothing changes.
    pub(crate) fn of(app: &App, routes: Routes) -> Self {
        let live = app.servers().and_then(|servers| servers.live());
        live.unwrap_or_else(|| Self::new(app.clone(), routes))
    }

    /// The state that a request would have that came now.
    #[must_use]
    pub fn app(&self) -> App {
        self.current.load().app.clone()
    }

    /// The routes over that state.
    pub(crate) fn router(&self) -> Router {
        self.current.load().router.clone()
    }

    /// The same, for what must not keep it alive.
    pub(crate) fn downgrade(&self) -> WeakLive {
        WeakLive(Arc::downgrade(&self.current))
    }

    /// From now on requests have this state. Returns the one that they had, for
    /// [`App::retire`].
    pub fn replace(&self, app: App) -> App {
        let routes = self.current.load().routes;
        self.current.swap(Generation::of(app, routes)).app.clone()
    }
}

/// A [`Live`] that may be gone.
#[derive(Debug, Clone)]
pub(crate) struct WeakLive(Weak<ArcSwap<Generation>>);

impl WeakLive {
    pub(crate) fn upgrade(&self) -> Option<Live> {
        let current = self.0.upgrade()?;
        Some(Live { current })
    }
}
