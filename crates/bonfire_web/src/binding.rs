//! What is used of the browser. These few calls are declared here, because crates that declare all of them hide the options of
//! transactions behind a flag that users would have to set.

use js_sys::{Array, Object, Uint8Array};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// The window of a page, or the scope of a worker.
    pub(crate) type Scope;
    #[wasm_bindgen(method, getter, catch, js_name = indexedDB)]
    pub(crate) fn indexed_db(this: &Scope) -> Result<Option<Factory>, JsValue>;

    pub(crate) type Factory;
    #[wasm_bindgen(method, catch)]
    pub(crate) fn open(this: &Factory, name: &str, version: u32) -> Result<Request, JsValue>;
    #[wasm_bindgen(method, catch, js_name = deleteDatabase)]
    pub(crate) fn delete_database(this: &Factory, name: &str) -> Result<Request, JsValue>;

    #[derive(Clone)]
    pub(crate) type Database;
    #[wasm_bindgen(method, getter)]
    pub(crate) fn version(this: &Database) -> f64;
    #[wasm_bindgen(method)]
    pub(crate) fn close(this: &Database);
    #[wasm_bindgen(method, setter, js_name = onversionchange)]
    pub(crate) fn set_on_version_change(this: &Database, handler: &JsValue);
    #[wasm_bindgen(method, catch, js_name = createObjectStore)]
    pub(crate) fn create_object_store(this: &Database, name: &str) -> Result<ObjectStore, JsValue>;
    #[wasm_bindgen(method, catch)]
    pub(crate) fn transaction(
        this: &Database,
        stores: &Array,
        mode: &str,
        options: &Object,
    ) -> Result<Transaction, JsValue>;

    #[derive(Clone)]
    pub(crate) type Transaction;
    #[wasm_bindgen(method, getter)]
    pub(crate) fn durability(this: &Transaction) -> Option<String>;
    #[wasm_bindgen(method, getter)]
    pub(crate) fn error(this: &Transaction) -> JsValue;
    #[wasm_bindgen(method, catch, js_name = objectStore)]
    pub(crate) fn object_store(this: &Transaction, name: &str) -> Result<ObjectStore, JsValue>;
    #[wasm_bindgen(method, catch)]
    pub(crate) fn abort(this: &Transaction) -> Result<(), JsValue>;
    #[wasm_bindgen(method, setter, js_name = oncomplete)]
    pub(crate) fn set_on_complete(this: &Transaction, handler: &JsValue);
    #[wasm_bindgen(method, setter, js_name = onabort)]
    pub(crate) fn set_on_abort(this: &Transaction, handler: &JsValue);

    pub(crate) type ObjectStore;
    #[wasm_bindgen(method, catch)]
    pub(crate) fn put(this: &ObjectStore, value: &JsValue, key: &JsValue) -> Result<Request, JsValue>;
    #[wasm_bindgen(method, catch)]
    pub(crate) fn get(this: &ObjectStore, key: &JsValue) -> Result<Request, JsValue>;
    #[wasm_bindgen(method, catch, js_name = getAll)]
    pub(crate) fn get_all(this: &ObjectStore, range: &JsValue) -> Result<Request, JsValue>;
    #[wasm_bindgen(method, catch, js_name = getAllKeys)]
    pub(crate) fn get_all_keys(this: &ObjectStore, range: &JsValue) -> Result<Request, JsValue>;
    #[wasm_bindgen(method, catch)]
    pub(crate) fn delete(this: &ObjectStore, key: &JsValue) -> Result<Request, JsValue>;

    #[derive(Clone)]
    pub(crate) type Request;
    #[wasm_bindgen(method, getter, js_name = readyState)]
    pub(crate) fn ready_state(this: &Request) -> String;
    #[wasm_bindgen(method, getter, catch)]
    pub(crate) fn result(this: &Request) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, getter, catch, js_name = error)]
    pub(crate) fn request_error(this: &Request) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, setter, js_name = onsuccess)]
    pub(crate) fn set_on_success(this: &Request, handler: &JsValue);
    #[wasm_bindgen(method, setter, js_name = onerror)]
    pub(crate) fn set_on_error(this: &Request, handler: &JsValue);
    #[wasm_bindgen(method, setter, js_name = onblocked)]
    pub(crate) fn set_on_blocked(this: &Request, handler: &JsValue);
    #[wasm_bindgen(method, setter, js_name = onupgradeneeded)]
    pub(crate) fn set_on_upgrade_needed(this: &Request, handler: &JsValue);

    /// A range of keys.
    #[wasm_bindgen(js_name = IDBKeyRange)]
    pub(crate) type KeyRange;
    #[wasm_bindgen(static_method_of = KeyRange, js_class = "IDBKeyRange", catch)]
    pub(crate) fn bound(lower: &JsValue, upper: &JsValue) -> Result<KeyRange, JsValue>;

    /// An error of the browser.
    pub(crate) type Exception;
    #[wasm_bindgen(method, getter, structural)]
    pub(crate) fn name(this: &Exception) -> JsValue;
    #[wasm_bindgen(method, getter, structural)]
    pub(crate) fn message(this: &Exception) -> JsValue;
}

/// Returns a copy of bytes that the browser owns.
pub(crate) fn to_browser(bytes: &[u8]) -> Uint8Array {
    Uint8Array::from(bytes)
}
