module example.test/lantern

go 1.26

require example.test/wick v0.1.0
