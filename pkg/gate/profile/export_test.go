package profile

// For the tests outside the package.
const DefaultModuleProxy = defaultModuleProxy
