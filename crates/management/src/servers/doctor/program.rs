//! Whether the program of a server exists and can be executed.

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pillion_mcp_client::StdioCommand;
use secrecy::ExposeSecret;

use super::StepKind;
use super::report::{Finding, Recorder};

/// Maximum time for looking up the program.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(4);

/// Looks up the program of a server. Returns `None` if the program cannot be executed.
pub(super) async fn examine_program(recorder: &mut Recorder, command: &StdioCommand) -> Option<()> {
    let lookup = look_up_program(command.clone());
    recorder
        .run(StepKind::Program, LOOKUP_TIMEOUT, lookup)
        .await
}

async fn look_up_program(command: StdioCommand) -> Result<((), Finding), Finding> {
    // The lookup runs on another thread, because the file system may not respond.
    let outcome = tokio::task::spawn_blocking(move || find_program(&command)).await;
    let path = outcome.unwrap_or_else(|error| Err(Finding::new(error.to_string())))?;
    let detail = format!("{} is executable.", path.display());
    Ok(((), Finding::new(detail)))
}

/// Returns the path of the program, looked up like the system does when the program is started.
fn find_program(command: &StdioCommand) -> Result<PathBuf, Finding> {
    let cwd = command.cwd.as_deref();
    if let Some(cwd) = cwd.filter(|cwd| !cwd.is_dir()) {
        let detail = format!("The working directory {} does not exist.", cwd.display());
        return Err(Finding::new(detail).with_advice("Correct `cwd` of the server."));
    }
    let program = &command.program;
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        let path = cwd.map_or_else(|| program.clone(), |cwd| cwd.join(program));
        return match path.metadata() {
            Ok(metadata) if is_executable(&metadata) => Ok(path),
            Ok(_) => Err(not_executable(&path)),
            Err(error) => {
                let detail = format!("{} cannot be found: {error}.", path.display());
                Err(Finding::new(detail).with_advice(
                    "Install the program, or correct the path in `command` of the server.",
                ))
            }
        };
    }
    let search_path = find_search_path(command);
    let directories = std::env::split_paths(&search_path);
    let mut unusable_path = None;
    for path in directories.map(|directory| directory.join(program)) {
        match path.metadata() {
            Ok(metadata) if is_executable(&metadata) => return Ok(path),
            Ok(_) => unusable_path = unusable_path.or(Some(path)),
            Err(_) => {}
        }
    }
    Err(match unusable_path {
        Some(path) => not_executable(&path),
        None => Finding::new(format!(
            "'{}' is in no directory of PATH.",
            program.display()
        ))
        .with_advice(
            "Install the program on the sidecar's host, or set `command` to its path. The \
             sidecar's own PATH does not apply: set PATH in `env` or `inheritEnv` of the server to \
             search other directories.",
        ),
    })
}

/// Returns the `PATH` in which the system looks up the program.
fn find_search_path(command: &StdioCommand) -> OsString {
    const NAME: &str = "PATH";
    let configured_path = command.env.get(NAME);
    let inherits_path = command.inherit_env.iter().any(|name| name == NAME);
    let inherited_path = || std::env::var_os(NAME).filter(|_| inherits_path);
    configured_path
        .map(|path| OsString::from(path.expose_secret()))
        .or_else(inherited_path)
        .unwrap_or_else(|| StdioCommand::DEFAULT_PATH.into())
}

fn is_executable(metadata: &Metadata) -> bool {
    const EXECUTE_BITS: u32 = 0o111;
    metadata.is_file() && metadata.permissions().mode() & EXECUTE_BITS != 0
}

fn not_executable(path: &Path) -> Finding {
    let path = path.display();
    Finding::new(format!("{path} is not an executable file.")).with_advice(
        "Make the file executable with `chmod +x`, or correct `command` of the server.",
    )
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::super::{Diagnosis, StepOutcome};
    use super::*;

    async fn diagnose(command: &StdioCommand) -> Diagnosis {
        let mut recorder = Recorder::new(&StepKind::OF_PROGRAM, Duration::from_secs(20));
        examine_program(&mut recorder, command).await;
        recorder.finish()
    }

    #[tokio::test]
    async fn a_program_is_looked_up_like_the_system_does() {
        for (program, path, is_found) in [
            ("sh", None, true),
            ("/bin/sh", None, true),
            ("no-such-program", None, false),
            ("/bin/no-such-program", None, false),
            ("/etc/passwd", None, false),
            ("sh", Some("/etc"), false),
            ("passwd", Some("/etc"), false),
        ] {
            let mut command = StdioCommand::new(program);
            let variable = path.map(|path| ("PATH".to_owned(), SecretString::from(path)));
            command.env.extend(variable);
            let diagnosis = diagnose(&command).await;
            let expected = if is_found {
                StepOutcome::Ok
            } else {
                StepOutcome::Failed
            };
            let mut steps = diagnosis.steps.iter();
            let step = steps.find(|step| step.kind == StepKind::Program).unwrap();
            assert_eq!(step.outcome, expected, "{program}: {step:?}");
            assert_eq!(step.advice.is_none(), is_found, "{program}");
        }
    }

    #[tokio::test]
    async fn a_missing_working_directory_is_named() {
        let mut command = StdioCommand::new("sh");
        command.cwd = Some("/no/such/directory".into());
        let diagnosis = diagnose(&command).await;
        let failed_step = diagnosis.failed_step().unwrap();
        assert!(failed_step.detail.contains("/no/such/directory"));
    }
}
