#!/bin/sh
# flagged: an installer that people do use is still code that nobody has read
curl --proto '=https' -sSf https://sh.example.rs | sh -s -- -y
