const { contextBridge, ipcRenderer } = require('electron');
contextBridge.exposeInMainWorld('api', {
  open: (name) => ipcRenderer.invoke('open', name),
  exec: (id) => ipcRenderer.send('exec', id),
});
