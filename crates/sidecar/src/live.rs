//! The state that new requests are served with, and how another takes its place.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use axum::Router;

use crate::app::App;
use crate::routes;

/// The [`App`] of now. Cheap to clone; clones show the same one.
///
/// Each request takes the state of the moment it came and keeps it to its end, routes and
/// limits included; what handlers see of it as `State<App>` never changes under them.
#[derive(Debug, Clone)]
pub struct Live {
    current: Arc<ArcSwap<Generation>>,
}

/// A state, and the routes over it.
#[derive(Debug)]
struct Generation {
    app: App,
    router: Router,
}

impl Generation {
    fn of(app: App) -> Arc<Self> {
        let router = routes::router(app.clone());
        Arc::new(Self { app, router })
    }
}

impl Live {
    /// Begins with `app`.
    #[must_use]
    pub fn new(app: App) -> Self {
        let current = Arc::new(ArcSwap::new(Generation::of(app)));
        Self { current }
    }

    /// What `app` is the state of; that state alone for one that nothing changes.
    pub(crate) fn of(app: &App) -> Self {
        let live = app.servers().and_then(|servers| servers.live());
        live.unwrap_or_else(|| Self::new(app.clone()))
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
        self.current.swap(Generation::of(app)).app.clone()
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
