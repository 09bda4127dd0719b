//! Measures what the executor's pipeline adds to a call, compared with the tool's own future.
//!
//! `cargo bench -p pillion-core --bench executor`
//!
//! Each loop runs inside a task of the runtime, as calls do in the sidecar and in the PHP
//! extension. The benchmark `task` runs the tool's future in its own task: that part of the
//! overhead is the cost of the isolation of ADR 0006.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Bencher, Criterion};
use pillion_core::executor::{Executor, ExecutorConfig, RateLimits, RateWindows};
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::{
    CallContext, FnTool, JsonObject, ParameterType, Tool, ToolCall, ToolDefinition, ToolOutput,
    ToolParameter,
};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

fn tool() -> Result<Arc<dyn Tool>, Box<dyn Error>> {
    let definition = ToolDefinition::builder("repeat", "Repeat a text")
        .parameter(ToolParameter::new("text", ParameterType::String))
        .parameter(ToolParameter::new("times", ParameterType::Integer))
        .build()?;
    Ok(Arc::new(FnTool::new(
        definition,
        |arguments: JsonObject, _context| async move {
            let text = arguments["text"].as_str().unwrap_or_default().to_owned();
            Ok(ToolOutput::text(text))
        },
    )))
}

fn executor(tool: &Arc<dyn Tool>, rate_limits: RateLimits) -> Result<Executor, Box<dyn Error>> {
    let registry = Arc::new(ToolRegistry::new());
    registry.register(Arc::clone(tool))?;
    let config = ExecutorConfig {
        rate_limits,
        ..ExecutorConfig::default()
    };
    Ok(Executor::new(registry, config))
}

/// Measures `call`, repeated in one task of `runtime`.
fn in_a_task<F, Fut>(bencher: &mut Bencher<'_>, runtime: &Runtime, call: F)
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    bencher.iter_custom(|calls| {
        let call = call.clone();
        let run = runtime.spawn(async move {
            let start = Instant::now();
            for _ in 0..calls {
                call().await;
            }
            start.elapsed()
        });
        runtime.block_on(run).unwrap_or(Duration::MAX)
    });
}

fn measure(
    criterion: &mut Criterion,
    flavour: &str,
    runtime: &Runtime,
) -> Result<(), Box<dyn Error>> {
    let tool = tool()?;
    let arguments = json!({"text": "hello", "times": 3});
    let object = arguments.as_object().cloned().unwrap_or_default();
    let context = CallContext::default();
    let mut group = criterion.benchmark_group(format!("executor/{flavour}"));

    group.bench_function("direct", |bencher| {
        let (tool, object, context) = (Arc::clone(&tool), object.clone(), context.clone());
        in_a_task(bencher, runtime, move || {
            let call = Arc::clone(&tool).call(object.clone(), context.clone());
            async move {
                let _ = black_box(call.await);
            }
        });
    });
    group.bench_function("task", |bencher| {
        let (tool, object, context) = (Arc::clone(&tool), object.clone(), context.clone());
        in_a_task(bencher, runtime, move || {
            let call = Arc::clone(&tool).call(object.clone(), context.clone());
            async move {
                let _ = black_box(tokio::spawn(call).await);
            }
        });
    });
    let wide = RateWindows {
        per_minute: Some(1_000),
        ..RateWindows::default()
    };
    let limits = RateLimits {
        default: wide,
        ..RateLimits::default()
    };
    for (name, limits) in [
        ("execute_one", RateLimits::default()),
        // The rate limit rejects most of these calls: measures the cost of a rejection.
        ("over_its_rate_limit", limits),
    ] {
        let executor = executor(&tool, limits)?;
        group.bench_function(name, |bencher| {
            let (executor, arguments, context) =
                (executor.clone(), arguments.clone(), context.clone());
            in_a_task(bencher, runtime, move || {
                let executor = executor.clone();
                let call = ToolCall::new("call_1", "repeat", arguments.clone());
                let context = context.clone();
                async move {
                    black_box(executor.execute_one(call, &context).await);
                }
            });
        });
    }
    group.finish();
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let one = Builder::new_current_thread().enable_all().build()?;
    measure(&mut criterion, "one_thread", &one)?;
    let two = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    measure(&mut criterion, "two_threads", &two)?;
    criterion.final_summary();
    Ok(())
}
