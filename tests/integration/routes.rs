mod bad_input;
mod fallback;
mod health;
mod openapi;
mod tools;
