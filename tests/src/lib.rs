//! The integration tests live in `integration/`.
