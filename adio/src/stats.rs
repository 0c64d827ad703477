//! Counts of what was done with a file, summed over its ranks, for `CAPULET_STATS=1`.

use std::fmt::Write as _;
use std::io::Write as _;

use capulet_comm::ReduceOp;
use capulet_sieve::Counters;

use crate::error::Result;
use crate::file::File;

impl File {
    /// Sums the counts of all ranks. Rank 0 prints the sums to standard error, as a table and as one line
    /// for programs. Collective; blocks for the other ranks.
    pub(crate) fn print_stats(&self) -> Result<()> {
        let counters = &self.counters;
        let [opens, reads, writes, read_bytes, written_bytes] = self.calls.values();
        let own = [
            ("opens", opens),
            ("reads", reads),
            ("writes", writes),
            ("read_bytes", read_bytes),
            ("written_bytes", written_bytes),
            ("pieces", Counters::get(&counters.pieces)),
            ("rounds", Counters::get(&counters.rounds)),
            ("system_calls", self.storage.system_calls().total()),
            ("copied_bytes", Counters::get(&counters.copied_bytes)),
            ("collectives", self.channel.counters().collectives()),
            ("barriers", Counters::get(&counters.barriers)),
            ("messages", self.channel.counters().messages_sent()),
            ("exchange_messages", Counters::get(&counters.exchange_messages)),
            ("exchanged_bytes", Counters::get(&counters.exchanged_bytes)),
            ("locks", self.lock.get().map_or(0, |lock| lock.counters().acquired())),
            ("lock_waits", self.lock.get().map_or(0, |lock| lock.counters().waited())),
            ("word_operations", self.channel.counters().word_operations()),
        ];
        let mut values = own.map(|(_, value)| value);
        self.agree().allreduce(&mut values, &[ReduceOp::Sum; 17])?;
        if self.group.rank().0 == 0 {
            let names = own.iter().map(|(name, _)| *name);
            let rows: Vec<_> = names.zip(values).collect();
            let text = render(&self.path.to_string_lossy(), self.group.size(), &rows);
            // The close must not fail if standard error is closed.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        Ok(())
    }
}

fn render(path: &str, ranks: u32, rows: &[(&str, u64)]) -> String {
    let value = |name: &str| rows.iter().find(|(row, _)| *row == name).map_or(0, |(_, value)| *value);
    let payload = value("read_bytes") + value("written_bytes");
    let copies = if payload == 0 { 0.0 } else { value("copied_bytes") as f64 / payload as f64 };
    let mut text = format!("Capulet: {path} on {ranks} ranks\n");
    for (name, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:<22}{value:>16}", name.replace('_', " "));
    }
    let _ = writeln!(text, "  {:<22}{copies:>16.3}", "copies per byte");
    let _ = write!(text, "capulet-stats file={} ranks={ranks}", escape(path));
    for (name, value) in rows {
        let _ = write!(text, " {name}={value}");
    }
    text.push('\n');
    text
}

/// Percent-encodes the bytes that would split the line at another place.
fn escape(path: &str) -> String {
    let mut text = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            text.push(byte as char);
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_line_lists_all_counts() {
        let text = render("a b.nc", 4, &[("read_bytes", 10), ("written_bytes", 0), ("copied_bytes", 5)]);
        assert!(text.contains("copies per byte                  0.500\n"));
        let line = text.lines().last().unwrap_or_default();
        assert_eq!(line, "capulet-stats file=a%20b.nc ranks=4 read_bytes=10 written_bytes=0 copied_bytes=5");
    }
}
