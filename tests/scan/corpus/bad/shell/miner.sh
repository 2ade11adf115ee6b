#!/bin/sh
nice ./m -o stratum+tcp://pool.example.net:3333 -u 4AB -p x
