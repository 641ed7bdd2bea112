package main

// younger are calls that have one number on every architecture.
func younger() []call {
	const bad = ^uintptr(0)
	return []call{
		{name: "io_uring_setup", number: 425}, {name: "io_uring_enter", number: 426, a: bad}, {name: "io_uring_register", number: 427, a: bad},
		{name: "open_tree", number: 428, a: bad}, {name: "move_mount", number: 429, a: bad}, {name: "fsopen", number: 430},
		{name: "fsconfig", number: 431, a: bad}, {name: "fsmount", number: 432, a: bad}, {name: "clone3", number: 435},
		{name: "pidfd_getfd", number: 438, a: bad}, {name: "mount_setattr", number: 442, a: bad},
	}
}
