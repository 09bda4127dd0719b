mod bench;

mod approvals;
mod context;
mod failures;
mod limits;
mod providers;
mod results;
mod states;
mod turns;
