//! `Send` and `Sync` bounds that do not hold in browsers, where values of the platform cannot leave their thread.

#[cfg(not(target_arch = "wasm32"))]
mod bounds {
    /// [`Send`], except on wasm32.
    pub trait MaybeSend: Send {}
    impl<T: Send + ?Sized> MaybeSend for T {}
    /// [`Sync`], except on wasm32.
    pub trait MaybeSync: Sync {}
    impl<T: Sync + ?Sized> MaybeSync for T {}
}

#[cfg(target_arch = "wasm32")]
mod bounds {
    /// [`Send`], except on wasm32.
    pub trait MaybeSend {}
    impl<T: ?Sized> MaybeSend for T {}
    /// [`Sync`], except on wasm32.
    pub trait MaybeSync {}
    impl<T: ?Sized> MaybeSync for T {}
}

pub use self::bounds::{MaybeSend, MaybeSync};
