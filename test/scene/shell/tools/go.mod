module example.test/lantern/tools

go 1.26

require example.test/wick v0.1.0
