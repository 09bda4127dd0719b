mod bench;

mod approvals;
mod context;
mod failures;
mod limits;
mod results;
mod states;
