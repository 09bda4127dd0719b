mod bench;

mod approvals;
mod context;
mod cut_off;
mod endings;
mod failures;
mod limits;
mod media;
mod native;
mod odd_arguments;
mod providers;
mod results;
mod states;
mod turns;
