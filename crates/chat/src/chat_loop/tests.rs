mod bench;

mod approvals;
mod context;
mod endings;
mod failures;
mod limits;
mod native;
mod providers;
mod results;
mod states;
mod turns;
