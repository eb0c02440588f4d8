#!/usr/bin/env bash
# A compiler with a standard library for wasm32-unknown-unknown, a browser and its driver, and the runner of browser tests.
#
# Everything comes by package name from apt and cargo, so that a machine without rustup's targets can build for browsers.
# Nothing is put on PATH, and rustup stays as it is. Prints the file to source, in one subshell:
#
#   env=$(.ci/wasm-setup.sh) && (. "$env" && cargo test -p bonfire_web --target wasm32-unknown-unknown)
#
# A folder per version below `${XDG_CACHE_HOME:-$HOME/.cache}/bonfire-wasm` keeps what was built. An absent one is built again.
set -eEuo pipefail
unset RUSTC RUSTDOC LD_LIBRARY_PATH
recipe=1               # Raise it if a step below changes what it leaves behind.
bindgen=0.2.130        # The same as `wasm-bindgen` in Cargo.toml: the two speak a protocol without versions.
root=$(cd "$(dirname "$0")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/bonfire-wasm

say() { printf '[%4ss] %s\n' "$SECONDS" "$*" >&2; }
fail() { printf 'the browser tools cannot be set up: %s\n' "$*" >&2; exit 1; }
trap 'fail "line $LINENO failed: $BASH_COMMAND"' ERR

[ "$(uname -sm)" = "Linux x86_64" ] || fail "this recipe is for Linux on x86_64"
command -v apt-get >/dev/null || fail "it needs apt-get"
command -v cargo >/dev/null || fail "it needs cargo"
grep -q "^wasm-bindgen = .*\"=$bindgen\"" "$root/Cargo.toml" ||
  fail "Cargo.toml pins another version of wasm-bindgen than $bindgen"

# Lists of packages are read once, and only if something is missing.
lists_are_new=
lists() {
  [ -z "$lists_are_new" ] || return 0
  say "lists of packages"
  apt-get update -qq >&2 || fail "apt-get update failed"
  lists_are_new=1
}

# Makes a folder complete or not at all: the command fills a folder beside it, which is then renamed.
complete() {
  local folder=$1; shift
  [ ! -e "$folder" ] || return 0
  rm -rf "$folder.part"
  mkdir -p "$folder.part"
  "$@" "$folder.part"
  mv "$folder.part" "$folder"
}

# The name of the package that another one depends on.
dependency() {
  apt-cache depends "$1" | awk -v name="$2" '$1 == "Depends:" && index($2, name) == 1 { print $2; exit }'
}

unpack_compiler() {
  local to=$1 std llvm package
  lists
  std=$(dependency libstd-rust-web-dev libstd-rust-web-)
  [ -n "$std" ] || fail "there is no package libstd-rust-web-dev"
  llvm=$(dependency "$std" libllvm)
  [ -n "$llvm" ] || fail "$std depends on no libllvm"
  say "compiler: rustc-web, rust-web-src, $std, $llvm"
  mkdir -p "$to/packages"
  (cd "$to/packages" && apt-get -qq download rustc-web libstd-rust-web-dev "$std" rust-web-src "$llvm" "lld-${llvm#libllvm}") \
    >&2 || fail "a package of the compiler cannot be downloaded"
  for package in "$to"/packages/*.deb; do dpkg -x "$package" "$to"; done
  rm -rf "$to/packages"
  # The target's linker, under the name by which the compiler looks for it.
  mkdir -p "$to/usr/lib/rustlib/x86_64-unknown-linux-gnu/bin"
  ln -s "../../../llvm-${llvm#libllvm}/bin/lld" "$to/usr/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld"
  echo "${llvm#libllvm}" >"$to/llvm"
}

# Runs a command with the compiler in a folder.
with_compiler() {
  local at=$1; shift
  LD_LIBRARY_PATH=$at/usr/lib/x86_64-linux-gnu:$at/usr/lib/llvm-$(cat "$at/llvm")/lib \
    RUSTC=$at/usr/bin/rustc RUSTDOC=$at/usr/bin/rustdoc "$@"
}

build_std() {
  local to=$1 source
  source=$(echo "$to"/usr/src/rustc-*/library)
  say "standard library for wasm32-unknown-unknown"
  (cd "$source" && RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zforce-unstable-if-unmarked __CARGO_DEFAULT_LIB_METADATA=bonfire \
    CARGO_TARGET_DIR=$to/build with_compiler "$to" \
    cargo build -q --profile dist -p sysroot --target wasm32-unknown-unknown) >&2 || fail "the standard library does not build"
  local libraries=$to/usr/lib/rustlib/wasm32-unknown-unknown/lib
  mkdir -p "$libraries"
  cp "$to"/build/wasm32-unknown-unknown/dist/deps/*.rlib "$libraries/"
  rm -rf "$libraries"/libsysroot-*.rlib "$to/build" "$to/usr/src" "$to/usr/share" "$to/usr/libexec"
}

make_compiler() { unpack_compiler "$1"; build_std "$1"; }

make_runner() {
  say "wasm-bindgen-cli $bindgen"
  # Unlocked: the lock file of that crate names versions that a mirror may lack. Unoptimized: a third of the time.
  CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR="$1/build" \
    cargo install -q --debug wasm-bindgen-cli --version "=$bindgen" --root "$1" >&2 || fail "wasm-bindgen-cli does not build"
  rm -rf "$1/build"
}

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9

if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then
  lists
  say "chromium and its driver"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null 2>&1 ||
    fail "chromium cannot be installed"
fi
complete "$cache/compiler-$recipe" make_compiler
complete "$cache/runner-$bindgen" make_runner

compiler=$cache/compiler-$recipe
with_compiler "$compiler" "$compiler/usr/bin/rustc" -V >&2 || fail "the compiler does not run"
env=$cache/env-$recipe-$bindgen.sh
cat >"$env" <<END
# Source this in a subshell: cargo stays what it was, and rustc becomes the one for browsers.
export LD_LIBRARY_PATH=$compiler/usr/lib/x86_64-linux-gnu:$compiler/usr/lib/llvm-$(cat "$compiler/llvm")/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
export RUSTC=$compiler/usr/bin/rustc RUSTDOC=$compiler/usr/bin/rustdoc
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER=$cache/runner-$bindgen/bin/wasm-bindgen-test-runner
export CHROMEDRIVER=$(command -v chromedriver)
END
say "done: $(du -sh "$cache" | cut -f1)"
echo "$env"
