//! The modules of a crate as the parser reads them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, Item, ItemUse, Meta, Token, UseTree, Visibility};

use crate::Error;

/// A module: a file, or an inline module in a file.
#[derive(Debug)]
pub struct Module {
    /// Path from the crate root, such as `copy::kernel`. The root has the name of its file.
    pub name: String,
    /// The file that contains the code.
    pub file: PathBuf,
    /// Index of the module that is the whole file: the own index, except for an inline module.
    pub in_file: usize,
    /// Index of the parent. The root has the index 0 and is its own parent.
    pub parent: usize,
    /// The names of the module's own scope. A name may have several meanings: a module and a function, or
    /// two items under two conditions.
    pub scope: HashMap<String, Vec<Binding>>,
    /// Paths of the modules whose names a `use` with a star imports.
    pub globs: Vec<Vec<String>>,
    /// The imports and paths in the code of the module.
    pub mentions: Vec<Mention>,
}

/// A meaning of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binding {
    /// The child module with this index.
    Module(usize),
    /// An item of the module itself.
    Item,
    /// A macro that the module defines.
    Macro,
    /// An item at another path, by a `use`.
    Import(Vec<String>),
}

/// A path in the code of a module.
#[derive(Debug)]
pub struct Mention {
    /// The segments of the path.
    pub path: Vec<String>,
    /// Line in the file, from 1.
    pub line: usize,
    /// The syntax around the path.
    pub kind: Kind,
}

/// The syntax around a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A `use` of one name, which exports nothing.
    Import,
    /// A `use` with a star, which exports nothing.
    Glob,
    /// Code.
    Code,
    /// The name of a macro that is invoked.
    Macro,
}

/// Reads the modules of a crate. The first one is the root.
///
/// # Errors
/// If `read` has no text for the file of a module, or the text is not Rust.
pub fn modules(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Result<Vec<Module>, Error> {
    let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = read(root).ok_or_else(|| missing(&name, root))?;
    let mut reader = Reader { read, modules: Vec::new() };
    let folder = root.parent().unwrap_or(Path::new("")).to_owned();
    let items = parse(root, &text)?;
    reader.add(name, root.to_owned(), None, 0);
    reader.items(0, &items, &folder)?;
    Ok(reader.modules)
}

fn missing(module: &str, parent: &Path) -> Error {
    Error::Missing { module: module.to_owned(), parent: parent.to_owned() }
}

fn parse(file: &Path, text: &str) -> Result<Vec<Item>, Error> {
    let syntax = |error: syn::Error| Error::Syntax {
        file: file.to_owned(),
        line: error.span().start().line,
        message: error.to_string(),
    };
    Ok(syn::parse_file(text).map_err(syntax)?.items)
}

/// Line of a name in its file, from 1.
fn line(name: &Ident) -> usize {
    name.span().start().line
}

struct Reader<'a> {
    read: &'a dyn Fn(&Path) -> Option<String>,
    modules: Vec<Module>,
}

impl Reader<'_> {
    /// Adds an empty module. Without `in_file` the module is a whole file.
    fn add(&mut self, name: String, file: PathBuf, in_file: Option<usize>, parent: usize) -> usize {
        let index = self.modules.len();
        let in_file = in_file.unwrap_or(index);
        let (scope, globs, mentions) = (HashMap::new(), Vec::new(), Vec::new());
        self.modules.push(Module { name, file, in_file, parent, scope, globs, mentions });
        index
    }

    /// Reads the items of a module. The files of its child modules are in `folder`.
    fn items(&mut self, module: usize, items: &[Item], folder: &Path) -> Result<(), Error> {
        for item in items.iter().filter(|item| !for_tests(attributes(item))) {
            if let Item::Mod(child) = item {
                self.child(module, child, folder)?;
                continue;
            }
            let module = &mut self.modules[module];
            for (name, binding) in names(item) {
                module.scope.entry(name).or_default().push(binding);
            }
            Mentions { module }.visit_item(item);
        }
        Ok(())
    }

    fn child(&mut self, parent: usize, child: &syn::ItemMod, folder: &Path) -> Result<(), Error> {
        let ident = child.ident.to_string();
        let name = match parent {
            0 => ident.clone(),
            _ => format!("{}::{ident}", self.modules[parent].name),
        };
        let below = folder.join(&ident);
        let bind = Binding::Module(self.modules.len());
        self.modules[parent].scope.entry(ident.clone()).or_default().push(bind);
        if let Some((_, items)) = &child.content {
            let (file, in_file) = (self.modules[parent].file.clone(), self.modules[parent].in_file);
            let index = self.add(name, file, Some(in_file), parent);
            return self.items(index, items, &below);
        }
        let files = [folder.join(format!("{ident}.rs")), below.join("mod.rs")];
        let found = files.into_iter().find_map(|file| Some(((self.read)(&file)?, file)));
        let (text, file) = found.ok_or_else(|| missing(&name, &self.modules[parent].file))?;
        let items = parse(&file, &text)?;
        let index = self.add(name, file, None, parent);
        self.items(index, &items, &below)
    }
}

/// True if only builds of tests contain an item with these attributes.
fn for_tests(attributes: &[Attribute]) -> bool {
    let cfg = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    cfg.filter_map(|attribute| attribute.parse_args::<Meta>().ok()).any(|condition| needs_test(&condition))
}

/// True if the condition of a `cfg` holds in builds of tests only.
fn needs_test(condition: &Meta) -> bool {
    let Meta::List(list) = condition else { return condition.path().is_ident("test") };
    let Ok(parts) = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) else {
        return false;
    };
    match () {
        () if list.path.is_ident("all") => parts.iter().any(needs_test),
        () if list.path.is_ident("any") => parts.iter().all(needs_test),
        () => false,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The names that an item adds to the scope of its module.
fn names(item: &Item) -> Vec<(String, Binding)> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => {
            return item.ident.iter().map(|name| (name.to_string(), Binding::Macro)).collect();
        }
        Item::ForeignMod(item) => {
            let name = |item: &syn::ForeignItem| match item {
                syn::ForeignItem::Fn(item) => Some((item.sig.ident.to_string(), Binding::Item)),
                syn::ForeignItem::Static(item) => Some((item.ident.to_string(), Binding::Item)),
                _ => None,
            };
            return item.items.iter().filter_map(name).collect();
        }
        _ => return Vec::new(),
    };
    vec![(name.to_string(), Binding::Item)]
}

/// One path of a `use`.
struct Leaf {
    path: Vec<String>,
    line: usize,
    /// The name in the scope; `None` for a star.
    name: Option<String>,
}

fn leaves(tree: &UseTree) -> Vec<Leaf> {
    let mut found = Vec::new();
    collect(tree, &mut Vec::new(), &mut found);
    found
}

fn collect(tree: &UseTree, prefix: &mut Vec<String>, found: &mut Vec<Leaf>) {
    let mut leaf = |last: Option<&Ident>, name: Option<&Ident>, line: usize| {
        // `use a::{self}` names `a`.
        let last = last.map(Ident::to_string).filter(|last| last != "self");
        let path: Vec<String> = prefix.iter().cloned().chain(last).collect();
        let name = name
            .map(Ident::to_string)
            .and_then(|name| if name == "self" { path.last().cloned() } else { Some(name) });
        found.push(Leaf { path, line, name });
    };
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            collect(&path.tree, prefix, found);
            prefix.pop();
        }
        UseTree::Name(name) => leaf(Some(&name.ident), Some(&name.ident), line(&name.ident)),
        UseTree::Rename(name) => leaf(Some(&name.ident), Some(&name.rename), line(&name.ident)),
        UseTree::Glob(glob) => leaf(None, None, glob.star_token.span.start().line),
        UseTree::Group(group) => group.items.iter().for_each(|tree| collect(tree, prefix, found)),
    }
}

/// Collects the imports and the paths of an item. An import in the body of a function counts as an import
/// of the module.
struct Mentions<'a> {
    module: &'a mut Module,
}

impl Mentions<'_> {
    fn add(&mut self, path: Vec<String>, line: usize, kind: Kind) {
        self.module.mentions.push(Mention { path, line, kind });
    }

    fn path(&mut self, path: &syn::Path, kind: Kind) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.add(names, line(&path.segments[0].ident), kind);
    }

    /// Adds the paths in the tokens of a macro or an attribute, which the parser does not read. A single
    /// name may be a variable, a field or a method, so only the name of a type counts.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let first = match token {
                TokenTree::Group(group) => {
                    self.tokens(group.stream());
                    continue;
                }
                TokenTree::Ident(first) => first,
                _ => continue,
            };
            let mut path = vec![first.to_string()];
            let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ':');
            while tokens.next_if(is_colon).is_some() && tokens.next_if(is_colon).is_some() {
                let Some(TokenTree::Ident(next)) =
                    tokens.next_if(|token| matches!(token, TokenTree::Ident(_)))
                else {
                    break;
                };
                path.push(next.to_string());
            }
            if path.len() > 1 || path[0].starts_with(|first: char| first.is_ascii_uppercase()) {
                self.add(path, line(&first), Kind::Code);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Mentions<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        if import.leading_colon.is_some() {
            return;
        }
        for Leaf { path, line, name } in leaves(&import.tree) {
            if matches!(import.vis, Visibility::Inherited) {
                let kind = if name.is_some() { Kind::Import } else { Kind::Glob };
                self.add(path.clone(), line, kind);
            }
            match name {
                Some(name) => self.module.scope.entry(name).or_default().push(Binding::Import(path)),
                None => self.module.globs.push(path),
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.path(path, Kind::Code);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invoked: &'ast syn::Macro) {
        self.path(&invoked.path, Kind::Macro);
        self.tokens(invoked.tokens.clone());
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        self.tokens(list.tokens.clone());
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}
