mod batch_execute;
mod execute;
mod list;
mod schemas;
mod show;
