mod corpus;
pub(crate) mod fixtures;
mod golden;
mod hostile_schemas;
mod responses;
mod round_trip;
mod rules;
mod streams;
