//! Reads a log of epochs, one JSON object a line, as `--epochs` and `tidegate explore` write it.

use crate::calibration::CalibrationError;
use crate::control_loop::Epoch;

/// The epochs of a log, in order; the error names line and field.
pub fn read_log(text: &str) -> Result<Vec<Epoch>, CalibrationError> {
    let last = text.lines().count();
    let parse = |(i, line): (usize, &str)| {
        let wrong = |reason: String| CalibrationError::Line { line: i + 1, reason };
        serde_json::from_str(line).map_err(|error| {
            if line.trim().is_empty() {
                return wrong("is empty".to_owned());
            }
            // Only the end of a file that was cut off is left open.
            if error.is_eof() && i + 1 == last && !text.ends_with('\n') {
                return CalibrationError::Truncated { line: i + 1 };
            }
            let message = error.to_string();
            let reason = message.split(" at line ").next().unwrap_or(&message);
            match key_before(line, error.column()) {
                Some(key) if error.is_data() && !reason.contains('`') => wrong(format!("{key}: {reason}")),
                _ => wrong(reason.to_owned()),
            }
        })
    };
    text.lines().enumerate().map(parse).collect()
}

/// The last key that begins before `column`, for errors that do not name it.
fn key_before(line: &str, column: usize) -> Option<&str> {
    let before = line.get(..column.min(line.len()))?;
    let (before, _) = before.rsplit_once("\":")?;
    before.rsplit_once('"').map(|(_, key)| key)
}
