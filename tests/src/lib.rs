//! The integration tests are in `integration/`.
