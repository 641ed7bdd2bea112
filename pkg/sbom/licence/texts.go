package licence

// texts are the first twelve bytes of the SHA-256 of normal texts. Texts shared
// by several licences, such as the GPL's, which do not say whether later
// versions may be chosen, are not included.
var texts = map[string]string{
	"f45538b138cf9aea39fa205d": "Apache-2.0",
	"ed44d69699f98d45c0c3e52e": "Apache-2.0", // with an https address
	"37599287c15c2f2ec060c3c3": "Apache-2.0", // without its last line
	"296a35b4f3b6a7e90a68c083": "Apache-2.0", // without list letters
	"0cf21bdfd1964a97a8615e12": "MIT",
	"d23cea581201080e413d189a": "BSD-3-Clause",
	"4bf124d47ac4421d0741c597": "BSD-3-Clause", // of the University of California
	"954097ce06fe7b595c04adae": "BSD-2-Clause",
	"85dcf58b8e8b6c4bfebbd7d2": "BSD-2-Clause", // with its conditions as a list
	"25a274d52b3014d9bd64e0f3": "ISC",
	"217da0747cec63a2e734185d": "ISC", // with an author as holder
	"f82071285728ca3ec7685ee9": "MPL-2.0",
	"96bdc7f63190fb4bd1ae584b": "CC0-1.0",
	"88766fb8b65d89bb75865e48": "CC0-1.0", // without its title
	"08f1dc258c8f9e175155356a": "Artistic-1.0-Perl",
}
