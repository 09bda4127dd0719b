mod serve;
mod tools;
