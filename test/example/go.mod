module example.test/lantern

go 1.26
