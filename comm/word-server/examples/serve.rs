//! Serves 8 words until the standard input ends. Prints the bytes of the contact as decimal numbers.

use std::io::Read;

use capulet_word_server::Server;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(8)?;
    let bytes: Vec<String> = server.addresses().to_bytes().iter().map(u8::to_string).collect();
    println!("{}", bytes.join(" "));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
